"""Arms that were disturbed: by others on the processors, or by what shows in the steps alone."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from gapless.verify.taken import Standing, Taken, foreign, own_noise

_FOREIGN: Final = 0.1  # of the processors: what others may take of them
DISTURBED: Final = "disturbed: "
_TRIES: Final = 3  # repetitions in a row that did not help: the machine is like that
_NOISIER: Final = 3.0  # times the other arms of its side
_NOISE: Final = 0.02  # and at least so much, relative
_OTHERS: Final = 2  # arms of its side, to compare its noise with


def disturbed(now: Standing, one: Taken) -> str | None:
    """Say what disturbed an arm that counts; ``None``: nothing did."""
    if by_others(one):
        return _by_others(one)
    noises = [own_noise(now, other) for other in now.of(one.order.side) if other is not one]
    known, mine = [value for value in noises if value is not None], own_noise(now, one)
    if len(known) < _OTHERS or mine is None:
        return None
    if mine > max(_NOISE, _NOISIER * statistics.median(known)):
        return f"its steps vary more than those of its side's other arms (±{mine:.0%})"
    return None


def hopeless(taken: Sequence[Taken]) -> bool:
    """Tell whether the last three arms that were repeated were disturbed again."""
    again = [
        by_others(two) for one, two in pairwise(taken) if str(one.failed).startswith(DISTURBED)
    ]
    return len(again) >= _TRIES and all(again[-_TRIES:])


def told(now: Standing) -> Iterator[str]:
    """Say how busy the machine was with others while arms that count were run."""
    busy = [one for one in now.counted if by_others(one)]
    if busy:
        most = max(busy, key=lambda one: foreign(one) or 0.0)
        yield f"in {len(busy)} of the {len(now.counted)} arms that count {_by_others(most)} or less"


def _by_others(one: Taken) -> str:
    return f"others took {foreign(one) or 0.0:.0%} of the processors"


def by_others(one: Taken) -> bool:
    """Tell whether others took a tenth of the processors meanwhile."""
    return (foreign(one) or 0.0) > _FOREIGN
