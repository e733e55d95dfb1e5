"""What a proposal of a fix would change of the run, for ``replay``: one file a field.

Fixes that are in none of them are not predicted: they are to be tried.
"""

from collections.abc import Callable, Mapping
from typing import Final

from gapless.catalogue.effects.copies import COPIES, copies
from gapless.catalogue.effects.feeding import FEEDING, feeding
from gapless.catalogue.effects.host import HOST, host
from gapless.catalogue.effects.kernels import KERNELS, kernels
from gapless.catalogue.effects.occasions import OCCASIONS, occasions
from gapless.model.change import Change
from gapless.model.edit import Proposal
from gapless.model.seen import Seen

Effect = Callable[[Seen, Proposal], tuple[Change, ...] | None]  # None: not predictable here
EFFECTS: Final[Mapping[str, Effect]] = {  # by the name of the fix
    **dict.fromkeys(COPIES, copies),
    **dict.fromkeys(FEEDING, feeding),
    **dict.fromkeys(HOST, host),
    **dict.fromkeys(KERNELS, kernels),
    **dict.fromkeys(OCCASIONS, occasions),
}
