"""Which cause is first, where a window has two explanations and they disagree about it."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gapless.model.change import Prediction
from gapless.model.finding import Finding

CONTESTED: Final = (
    "which cause is first depends on why the window's steps differ from plain ones: tracing that "
    "cost more, or a host that was slower or faster"
)


def mark_contested(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings; where explanations disagree about the first, the first of each notes it.

    Their prices hold both explanations.
    """
    n_explanations = max(
        (len(finding.prediction.by_explanation) for finding in findings), default=0
    )
    first_indices = {_most_valuable(findings, explanation) for explanation in range(n_explanations)}
    if len(first_indices) < 2:  # noqa: PLR2004 - they agree
        return tuple(findings)
    return tuple(
        replace(finding, prediction=_add_note(finding.prediction))
        if index in first_indices
        else finding
        for index, finding in enumerate(findings)
    )


def _add_note(prediction: Prediction) -> Prediction:
    return replace(prediction, notes=(*prediction.notes, CONTESTED))


def _most_valuable(findings: Sequence[Finding], explanation: int) -> int:
    """Return the finding that is worth most by one explanation."""
    return max(range(len(findings)), key=lambda index: _speedup_by(findings[index], explanation))


def _speedup_by(finding: Finding, explanation: int) -> float:
    speedups, speedup = finding.prediction.by_explanation, finding.prediction.speedup
    if speedup is None:
        return 0.0
    return speedups[explanation].mid if speedups else speedup.mid
