"""Averages of weights that are made anew: ``d * average + (1 - d) * weight`` for each parameter."""

from collections.abc import Mapping
from typing import Final

from gapless.catalogue import windowed
from gapless.model.edit import Where
from gapless.model.seen import Seen

MUL, ADD, COPY = "aten::mul", "aten::add", "aten::copy_"
_COPYING: Final = ("aten::_to_copy", "aten::clone")  # each copies once, into a new tensor
_DETACHING: Final = ("aten::detach", COPY)
_NEARLY: Final = 0.9
_WITH_BUFFERS: Final = 3  # times as many: of batch norm, three are averaged for two parameters
_FOLLOWED: Final = 3  # multiplications for one that a backward pass follows
_ALIKE: Final = 0.1  # of two multiplications for each addition, in the function that averages


def once(calls: float, many: int) -> bool:
    """Tell whether so many calls go through all tensors of a model once."""
    return _NEARLY * many <= calls <= _WITH_BUFFERS * many


def made_anew(seen: Seen, many: int) -> tuple[Where | None, ...]:
    """Give where each of so many parameters is averaged, ``None``: not known; empty: nowhere.

    By the function that multiplies and adds for each parameter. Without stacks it is not known
    which; then as many results are copied into tensors that are kept, which nothing but a loop over
    a model's tensors does.
    """
    if not _multiplies(seen, many):
        return ()
    found: dict[Where, dict[str, int]] = {}
    for one in seen.study.sites:
        found.setdefault(Where(one.file, one.line, one.function), {})[one.name] = one.calls
    if not found:
        return (None,) if once(_copied(seen), many) else ()
    return tuple(place for place, calls in found.items() if _averages(calls, many))[:1]


def _multiplies(seen: Seen, many: int) -> bool:
    """Tell whether there are two multiplications and an addition for each parameter.

    No backward pass follows them: what multiplies in a model does so once more there.
    """
    both = windowed.calls(seen, MUL).count, windowed.calls(seen, ADD).count
    followed = windowed.calls(seen, "MulBackward0").count
    enough = both[0] - _FOLLOWED * followed >= _NEARLY * 2 * many
    return enough and both[1] >= _NEARLY * many


def _copied(seen: Seen) -> float:
    """Count copies into tensors that are there: those into new ones are made within other calls."""
    within = windowed.calls(seen, *_COPYING).count
    return windowed.calls(seen, COPY).count - within


def _averages(calls: Mapping[str, int], many: int) -> bool:
    """Tell whether calls of a function, of some whole steps, are those of an average, and no more.

    A function that computes derivatives is none, unless it takes as many tensors out of graphs,
    too, as ``state_dict()`` does: a loop that trains and averages.
    """
    multiplied, added = calls.get(MUL, 0) / (2 * many), calls.get(ADD, 0) / many
    whole = round(added) >= 1 and abs(added / round(added) - 1) <= _ALIKE
    derives = any(name.startswith("autograd::") for name in calls)
    detached = max(calls.get(name, 0) for name in _DETACHING)
    derives = derives and detached < _NEARLY * calls.get(ADD, 0)
    return whole and not derives and abs(multiplied / added - 1) <= _ALIKE
