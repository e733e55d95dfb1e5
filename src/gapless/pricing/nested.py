"""One cause within another: at the same line, or in a function that a costly line calls.

Rules price what they recognise at a line: numpy, json, a sleep. Who removes that removes the rest
of the line as well: operators, arrays made of lists, what is called in between. How long the whole
line takes is sampled without regard to what it does there (costly-line).
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.queries.samples import IN_BACKWARD, SAMPLED_AT_LINE, SAMPLED_IN_FUNCTION
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import SAME_LINE, Finding, count_lines_between
from gapless.pricing.worth_trying import saved_share

_MIN_LINES_SHARE: Final = 0.75  # of what lines take: a cause that saves less is not at all of them
_MAX_EXCESS: Final = 1.1  # times what was sampled at a line: more of a cause lies elsewhere
_MAX_BACKWARD: Final = 0.02  # of its calls: a loop whose rounds have gradients is not at its line
_MIN_WIDTH: Final = 0.02  # of a step, of an interval: nothing is known better than that
_MIN_INNER_SHARE: Final = 0.5  # of what the outer cause saves: what is left of it is less


def gives_way(finding: Finding, rival: Finding) -> bool:
    """Return whether a cause is not named beside another one.

    Of a rival whose line is only known by its function, another line may be meant, and who makes
    its fix leaves the rest of the line as it is: such a rival has to explain most of what this one
    is worth, and so has one at another line of the same loop. Of two that both stand for whatever
    is at the line, the one that is worth less gives way. A cause that is named by its rule as the
    easier one to remove need not be worth as much.
    """
    detection, other = finding.detection, rival.detection
    if not detection.yields_to(other):
        return False
    if other.yields_to(detection):
        return _worth(finding) < _worth(rival)
    is_whole_line = detection.is_at(other) and not other.helps
    is_whole_cause = is_whole_line or detection.unless != SAME_LINE
    return (is_whole_cause and not other.by_function) or saved_share(
        rival
    ) >= _MIN_INNER_SHARE * saved_share(finding)


def drop_yielding(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out causes that give way to another one of these.

    A sure gain gives way to none that is not known: both are named.
    """
    return [
        finding
        for finding in findings
        if not any(
            gives_way(finding, rival)
            and _explains(rival, finding, findings)
            and (rival.share is None or finding.share is not None)
            for rival in findings
        )
    ]


def _explains(rival: Finding, line: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether a cause near a line explains it, and not only a costly line nearer to it.

    What is worth far less than both lines take is at the nearer one alone.
    """
    nearer = [
        neighbour
        for neighbour in findings
        if neighbour.detection.code == line.detection.code
        and gives_way(neighbour, rival)
        and count_lines_between(neighbour.detection, rival.detection)
        < count_lines_between(line.detection, rival.detection)
    ]
    both_share = _middle_share(line) + sum(map(_middle_share, nearer))
    return not nearer or _middle_share(rival) >= _MIN_LINES_SHARE * both_share


def _middle_share(finding: Finding) -> float:
    return 1 - 1 / max(1.0, _middle(finding))


def _worth(finding: Finding) -> tuple[float, str]:
    return saved_share(finding), finding.detection.code


def drop_callers(findings: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """Leave out causes that stand for whatever is at a line, where a call of it is a cause, too.

    The inner cause says what takes long, so it stays, if it saves half of the time or more.
    """
    return [
        finding
        for finding in findings
        if finding.detection.unless != SAME_LINE
        or not any(_is_within(inner, finding, evidence) for inner in findings)
    ]


def _is_within(inner: Finding, outer: Finding, evidence: Evidence) -> bool:
    line, place = outer.detection.location, inner.detection.location
    if inner is outer or inner.detection.to_try or line is None or place is None:
        return False
    is_most = saved_share(inner) >= _MIN_INNER_SHARE * saved_share(outer)
    return is_most and _name(place) in _called_functions(line, evidence)


def _called_functions(line: Location, evidence: Evidence) -> frozenset[tuple[str, str]]:
    """Return the functions that a line was sampled calling, and all that they call."""
    calls = evidence.call_lines
    callees = {
        _name(Location(call.callee_file, 0, call.callee))
        for call in calls
        if call.line == line.line and PurePath(call.file).name == PurePath(line.file).name
    }
    while True:
        further = {
            _name(Location(call.callee_file, 0, call.callee))
            for call in calls
            if _name(Location(call.file, call.line, call.function)) in callees
        }
        if further <= callees:
            return frozenset(callees)
        callees |= further


def _name(location: Location) -> tuple[str, str]:
    """Return file and function, briefly: windows know neither folders nor classes."""
    return PurePath(location.file).name, (location.function or "").rpartition(".")[2]


def take_line_prices(findings: Sequence[Finding], step_ns: float | None) -> list[Finding]:
    """Return findings in their order; at each line the dearest by hand has the price of the line.

    The line's own finding, which yields to it, stays as it is. The price rests on what the line
    takes, so the changes are the line's, too. One that is dearer alone is worth as much at least,
    and what takes most of a line is worth the mean of both.
    """
    priced = list(findings)
    for line in findings:
        if line.detection.unless != SAME_LINE or line.prediction.speedup is None:
            continue
        rivals = [
            index
            for index, rival in enumerate(priced)
            if gives_way(line, rival)
            and _explains(rival, line, findings)
            and not rival.detection.helps
            and rival.detection.unless != SAME_LINE
            and rival.prediction.at_most is None
        ]
        if rivals:
            index = max(rivals, key=lambda index: _middle(priced[index]))
            priced[index] = _price_as_line(priced[index], line, step_ns)
    return priced


def _middle(finding: Finding) -> float:
    return 0.0 if finding.prediction.speedup is None else finding.prediction.speedup.mid


def _price_as_line(finding: Finding, line: Finding, step_ns: float | None) -> Finding:
    own_speedup, line_speedup = finding.prediction.speedup, line.prediction.speedup
    if line_speedup is None:
        return finding
    if own_speedup is None:  # no window can be replayed, say: samples are of plain steps
        priced = replace(finding, prediction=line.prediction, cost_ns=line.cost_ns)
        return replace(priced, detection=replace(finding.detection, changes=line.detection.changes))
    if line_speedup.mid <= own_speedup.mid:  # samples of the line tell how much goes at least, too
        # A part cannot take more than all: two measurements of the same time.
        low = min(own_speedup.mid, max(own_speedup.low, line_speedup.low))
        speedup = (
            _weigh(own_speedup, line_speedup)
            if _is_all_of(line, finding)
            else replace(own_speedup, low=low)
        )
        return _with_price(finding, speedup, step_ns)
    # What is most of a line is the line, measured twice: by windows, and by samples.
    is_most = 1 - 1 / own_speedup.mid >= _MIN_LINES_SHARE * (1 - 1 / line_speedup.mid)
    mid = _weigh(own_speedup, line_speedup).mid if is_most else line_speedup.mid
    low = min(mid, max(own_speedup.low, line_speedup.low))
    speedup = Estimate(low, mid, max(own_speedup.high, line_speedup.high))
    note = f"with all that its line takes; what was recognised there alone: {own_speedup.mid:.2f}×"
    priced = _with_price(finding, speedup, step_ns)
    return replace(
        priced,
        detection=replace(finding.detection, changes=line.detection.changes),
        prediction=replace(priced.prediction, notes=(*finding.prediction.notes, note)),
    )


def _is_all_of(line: Finding, finding: Finding) -> bool:
    """Return whether a cause was sampled at a line alone: nowhere else, and in no backward pass."""
    in_backward = _read_measure(finding, IN_BACKWARD)
    if in_backward is not None:
        return in_backward < _MAX_BACKWARD
    sampled_share = _read_measure(finding, SAMPLED_IN_FUNCTION)
    line_share = _read_measure(line, SAMPLED_AT_LINE) or 0.0
    return sampled_share is not None and sampled_share <= _MAX_EXCESS * line_share


def _read_measure(finding: Finding, name: str) -> float | None:
    """Return a figure that a finding rests on."""
    values = (measure.value for measure in finding.detection.measures if measure.name == name)
    value = next(values, None)
    return None if value is None else float(value)


def _with_price(finding: Finding, speedup: Estimate, step_ns: float | None) -> Finding:
    return replace(
        finding,
        prediction=replace(finding.prediction, speedup=speedup),
        cost_ns=None if step_ns is None else round(step_ns * (1 - 1 / speedup.mid)),
    )


def _weigh(own_speedup: Estimate, line_speedup: Estimate) -> Estimate:
    """Return the mean of two speed-ups, by what they save of a step, and by their errors."""
    widths = [1 / speedup.low - 1 / speedup.high for speedup in (own_speedup, line_speedup)]
    weights = [1 / max(_MIN_WIDTH, width) ** 2 for width in widths]
    low, mid = (
        sum(weights) / (weights[0] / own_gain + weights[1] / gain)
        for own_gain, gain in (
            (own_speedup.low, line_speedup.low),
            (own_speedup.mid, line_speedup.mid),
        )
    )
    return Estimate(low, mid, max(mid, own_speedup.high, line_speedup.high))
