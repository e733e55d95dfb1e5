"""What the proposal of a fix would change in the run, for ``replay``: a file for each field.

Fixes without an effect are not predicted: they have to be tried.
"""

from collections.abc import Callable, Mapping
from typing import Final

from gapless.catalogue.effects.copies import COPY_FIXES, copy_changes
from gapless.catalogue.effects.feeding import LOADER_FIXES, loader_changes
from gapless.catalogue.effects.host import HOST_FIXES, host_changes
from gapless.catalogue.effects.kernels import KERNEL_FIXES, kernel_changes
from gapless.catalogue.effects.occasions import OCCASION_FIXES, occasion_changes
from gapless.model.change import Change
from gapless.model.edit import Proposal
from gapless.model.evidence import Evidence

Effect = Callable[[Evidence, Proposal], tuple[Change, ...] | None]  # None: not predictable here
EFFECTS: Final[Mapping[str, Effect]] = {  # by the name of the fix
    **dict.fromkeys(COPY_FIXES, copy_changes),
    **dict.fromkeys(LOADER_FIXES, loader_changes),
    **dict.fromkeys(HOST_FIXES, host_changes),
    **dict.fromkeys(KERNEL_FIXES, kernel_changes),
    **dict.fromkeys(OCCASION_FIXES, occasion_changes),
}
