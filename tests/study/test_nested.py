"""A line that calls the function of another cause is not a second cause."""

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu
from gapless.model.change import Prediction
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.finding import SAME_LINE, Detection, Finding
from gapless.model.host_code import CallLine
from gapless.pricing.nested import drop_callers

_CALLS = (
    CallLine("/job/train.py", 33, "<module>", "/job/data.py", "Windows.sample", 0.5),
    CallLine("/job/data.py", 9, "Windows.sample", "/job/data.py", "Windows.scale", 0.5),
)
EVIDENCE = evidence_of(cpu(), {"busy.math": 10, "idle.host.python": 10}, *_CALLS)


def _finding(
    name: str, location: Location, low_speedup: float, unless: str | None = None
) -> Finding:
    detection = Detection("G900", name, "It is.", (), location, unless=unless)
    speedup = Estimate(low_speedup, 2 * low_speedup, 3 * low_speedup)
    return Finding(detection, Prediction(speedup, "host"), None)


CALLER = _finding("caller", Location("train.py", 33, "<module>"), 1.5, SAME_LINE)


def test_what_a_line_calls_stays_and_the_line_goes() -> None:
    inner = _finding("inner", Location("data.py", 12, "scale"), 1.4)
    assert drop_callers((CALLER, inner), EVIDENCE) == [inner]


def test_a_small_part_of_what_a_line_takes_does_not_stand_for_it() -> None:
    inner = _finding("inner", Location("data.py", 12, "scale"), 1.05)
    assert drop_callers((CALLER, inner), EVIDENCE) == [CALLER, inner]


def test_a_function_that_the_line_does_not_call_is_another_cause() -> None:
    other = _finding("other", Location("data.py", 40, "load"), 1.4)
    assert drop_callers((CALLER, other), EVIDENCE) == [CALLER, other]
