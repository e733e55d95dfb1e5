"""One cause within another: a line that is costly since it calls the function of another cause."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import SAME_LINE, Finding
from gapless.pricing.worth_trying import saved_share

_MIN_INNER_SHARE: Final = 0.5  # of what the outer cause saves: what is left of it is less


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
    recorded = evidence.study.recorded
    calls = () if recorded is None else recorded.call_lines
    called = {
        _name(Location(call.callee_file, 0, call.callee))
        for call in calls
        if call.line == line.line and PurePath(call.file).name == PurePath(line.file).name
    }
    while True:
        further = {
            _name(Location(call.callee_file, 0, call.callee))
            for call in calls
            if _name(Location(call.file, call.line, call.function)) in called
        }
        if further <= called:
            return frozenset(called)
        called |= further


def _name(location: Location) -> tuple[str, str]:
    """Return file and function, briefly: windows know neither folders nor classes."""
    return PurePath(location.file).name, (location.function or "").rpartition(".")[2]
