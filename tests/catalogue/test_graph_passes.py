"""What a line computes costs again in the backward pass, and goes with the line."""

from msgspec.structs import replace

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.queries import graph_passes
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.host_code import CallLine
from gapless.model.study import GRAPH_MADE, GRAPH_PASSED, Site

LINE = StepLine(
    Location("job/train.py", 31, "train"),
    Estimate(0.2, 0.25, 0.3),
    100,
    first_line=30,
    last_line=31,
)


def sites(function: str, line: int, *, made_ms: float, passed_ms: float) -> tuple[Site, Site]:
    return (
        Site(GRAPH_MADE, "train.py", line, function, round(made_ms * 1e6), 10),
        Site(GRAPH_PASSED, "train.py", line, function, round(passed_ms * 1e6), 100),
    )


def share(*parts: object, gpu: bool = False, line: StepLine = LINE) -> Estimate:
    facts = example_facts.gpu() if gpu else example_facts.cpu()
    operators = operator("aten::addmm", calls=1000, host_ms=14)
    evidence = evidence_of(facts, {"busy.math": 14, "idle.host.python": 6}, operators, *parts)
    return graph_passes.backward_share(evidence, line)


def test_a_comprehension_at_the_line_has_its_own_part_and_lines_elsewhere_have_none() -> None:
    penalty = sites("<genexpr>", 30, made_ms=40, passed_ms=60)
    loss = sites("train", 10, made_ms=1, passed_ms=2)
    assert share(*penalty, *loss) == Estimate(0.3, 0.3, 0.3)
    assert share(*penalty, *loss, line=replace(LINE, first_line=40, last_line=41)).mid == 0


def test_a_function_of_the_scripts_counts_where_the_line_calls_it() -> None:
    penalty = sites("penalty", 5, made_ms=40, passed_ms=60)
    call = CallLine("job/train.py", 31, "train", "job/train.py", "penalty", 0.25)
    assert share(*penalty).mid == 0
    assert share(*penalty, call).mid == 0.3


def test_what_passes_through_a_mode_is_not_all_of_the_line_that_calls_into_it() -> None:
    watched = sites("__torch_function__", 26, made_ms=80, passed_ms=90)
    call = CallLine("job/train.py", 31, "train", "job/train.py", "Watch.__torch_function__", 0.25)
    assert share(*watched, call) == graph_passes.NOTHING


def test_no_more_counts_than_fits_in_the_lines_time_and_nothing_of_a_line_that_makes_none() -> None:
    within = sites("train", 10, made_ms=100, passed_ms=60)  # the line takes 50 of these 200 ms
    assert share(*within).mid == 0.15
    assert share(*sites("train", 10, made_ms=10, passed_ms=60)) == graph_passes.NOTHING


def test_windows_that_are_slower_leave_open_how_much_of_it_is_the_profilers() -> None:
    penalty = sites("<genexpr>", 30, made_ms=80, passed_ms=120)
    events = operator("aten::addmm", calls=100, host_ms=14)
    plain, traced = (
        evidence_of(
            example_facts.cpu(), {"busy.math": 14 * n, "idle.host.python": 6 * n}, events, *penalty
        )
        for n in (1, 2)
    )
    slowed = replace(plain, study=replace(plain.study, account=traced.study.account))
    # 12 ms of 40, a tenth of the events: of the 20 ms that are the profiler's, 2 are theirs.
    assert graph_passes.backward_share(slowed, LINE) == Estimate(0.3, 0.4, 0.5)


def test_with_a_device_nothing_is_known_of_it() -> None:
    penalty = sites("<genexpr>", 30, made_ms=40, passed_ms=60)
    assert share(*penalty, gpu=True) == graph_passes.NOTHING
