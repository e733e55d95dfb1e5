"""A cause that is removed by hand is worth what its line is worth, if that is more.

Rules price what they recognise at a line: numpy, json, a sleep. Who removes that removes the rest
of the line as well: operators, arrays made of lists, what is called in between. How long the whole
line takes is sampled without regard to what it does there (costly-line).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from gapless.model.estimate import Estimate
from gapless.model.finding import SAME_LINE, Finding


def take_line_prices(findings: Sequence[Finding], step_ns: float | None) -> list[Finding]:
    """Return findings in their order; at each line the dearest by hand has the price of the line.

    The line's own finding, which yields to it, stays as it is. The price rests on what the line
    takes, so the changes are the line's, too.
    """
    priced = list(findings)
    for line in findings:
        if line.detection.unless != SAME_LINE or line.prediction.speedup is None:
            continue
        rivals = [
            index
            for index, rival in enumerate(priced)
            if line.detection.yields_to(rival.detection)
            and not rival.detection.helps
            and rival.detection.unless != SAME_LINE
            and rival.prediction.speedup is not None
        ]
        if rivals:
            index = max(rivals, key=lambda index: _middle(priced[index]))
            priced[index] = _price_as_line(priced[index], line, step_ns)
    return priced


def _middle(finding: Finding) -> float:
    return 0.0 if finding.prediction.speedup is None else finding.prediction.speedup.mid


def _price_as_line(finding: Finding, line: Finding, step_ns: float | None) -> Finding:
    own, whole = finding.prediction.speedup, line.prediction.speedup
    if own is None or whole is None or whole.mid <= own.mid:
        return finding
    speedup = Estimate(max(own.low, whole.low), whole.mid, max(own.high, whole.high))
    note = f"with all that its line takes; what was recognised there alone: {own.mid:.2f}×"
    return replace(
        finding,
        detection=replace(finding.detection, changes=line.detection.changes),
        prediction=replace(
            finding.prediction, speedup=speedup, notes=(*finding.prediction.notes, note)
        ),
        cost_ns=None if step_ns is None else round(step_ns * (1 - 1 / speedup.mid)),
    )
