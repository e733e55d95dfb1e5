"""Which cause is first, where a window has two explanations and they disagree about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gapless.model.change import Predicted
from gapless.model.finding import Finding

CONTESTED: Final = (
    "which cause is first depends on why the window's steps differ from plain ones: tracing that "
    "cost more, or a host that was slower or faster"
)


def contested(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Give findings; where explanations disagree about the first, the first of each says so.

    Their prices hold both explanations.
    """
    many = max((len(one.predicted.each) for one in found), default=0)
    firsts = {_first(found, at) for at in range(many)}
    if len(firsts) < 2:  # noqa: PLR2004 - they agree
        return tuple(found)
    return tuple(
        replace(one, predicted=_noted(one.predicted)) if at in firsts else one
        for at, one in enumerate(found)
    )


def _noted(predicted: Predicted) -> Predicted:
    return replace(predicted, notes=(*predicted.notes, CONTESTED))


def _first(found: Sequence[Finding], explanation: int) -> int:
    """Give which finding is worth most by one explanation."""
    return max(range(len(found)), key=lambda at: _worth(found[at], explanation))


def _worth(one: Finding, explanation: int) -> float:
    each, speedup = one.predicted.each, one.predicted.speedup
    if speedup is None:
        return 0.0
    return each[explanation].mid if each else speedup.mid
