"""Marks and windows share one axis: its error, and windows that contradict the marks."""

import numpy as np
import pytest
from msgspec.structs import replace

import gapless
from gapless.accounting.clock import ClockRanges
from gapless.model.recording import Sums, Window
from gapless.recorded.clocks import clock_disagreement, clock_error_ns
from gapless.recorded.training.processes import Training, trainings
from gapless.report.run.page import print_run
from tests.study import recording as by_hand
from tests.study.recording import MS, Log
from tests.traces import recorded_run

OFFSET = 1_790_000_000_000_000_000
ERROR = MS // 100
ENDS = (100, 110, 120, 130, 140, 150, 160, 170)


def training(*ends: float) -> Training:
    log = Log()
    log.add_steps(*ends)
    (only_training,) = trainings(by_hand.recording(log))
    return only_training


def window(*, readings: bool = True) -> Window:
    edge = ((118 * MS, 118 * MS + 2 * ERROR),)
    return Window(
        number=1,
        path="windows/rank0-step3.json.gz",
        start=119 * MS,
        end=156 * MS,
        first_step=3,
        last_step=5,
        stacks=False,
        stop_ns=0,
        save_ns=0,
        discarded=None,
        readings=(edge, ()) if readings else (),
    )


def clock_ranges(*steps: float) -> ClockRanges:
    """Return ranges in ms on our clock as a file shows them, 5 µs after the ends of steps."""
    edge_ns = OFFSET + 118 * MS + ERROR
    return ClockRanges(
        ((edge_ns, edge_ns),), tuple(OFFSET + round(end * MS) + 5000 for end in steps), 1
    )


def test_steps_that_follow_their_marks_are_in_order() -> None:
    assert clock_disagreement(training(*ENDS), window(), clock_ranges(120, 130, 140, 150)) is None
    assert clock_error_ns(window(), clock_ranges(120, 130, 140, 150)) == ERROR


@pytest.mark.parametrize("within", [-0.012, 0.3])
def test_a_range_within_the_error_or_later_in_the_step_is_in_order(within: float) -> None:
    steps = [end + within for end in (120, 130, 140, 150)]
    assert clock_disagreement(training(*ENDS), window(), clock_ranges(*steps)) is None


@pytest.mark.parametrize(
    ("steps", "far"),
    [((120, 130, 140, 149.5), "0.495 ms"), ((120, 130, 141, 163), "3 ms")],
)
def test_a_range_before_its_mark_or_after_the_next_is_told(
    steps: tuple[float, ...], far: str
) -> None:
    disagreement = clock_disagreement(training(*ENDS), window(), clock_ranges(*steps))
    assert disagreement is not None
    assert f"its steps lie {far} off the marks, with a clock error of 0.01 ms" in disagreement


def test_other_steps_than_the_marks_are_told() -> None:
    disagreement = clock_disagreement(
        training(120, 150), window(), clock_ranges(120, 130, 140, 150)
    )
    assert disagreement == "its steps are not those of the marks"


@pytest.mark.parametrize("ranges", [None, clock_ranges(120, 130, 140, 150)])
def test_a_clock_that_is_not_known_is_told(ranges: ClockRanges | None) -> None:
    without_readings = window(readings=False)
    disagreement = clock_disagreement(training(*ENDS), without_readings, ranges)
    assert disagreement == "its clock is not known: the file lacks the ranges that show it"
    assert clock_error_ns(without_readings, ranges) is None


def test_where_marks_were_summed_nothing_contradicts() -> None:
    unthinned = training(120, 150)
    columns = {"start": 100 * MS, "end": 125 * MS}
    sums = Sums({name: np.array([value]) for name, value in columns.items()})
    with_sums = replace(unthinned, process=replace(unthinned.process, mark_sums=sums))
    assert clock_disagreement(with_sums, window(), clock_ranges(120, 130, 140, 150)) is None


def test_the_error_of_a_recorded_run_is_on_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    study = gapless.open(recorded_run())
    assert study.recorded is not None
    error = study.recorded.clock_error_ns
    assert error is not None
    assert 0 < error < 100_000
    assert not [note for note in study.recorded.notes if "clock" in note or "beside" in note]
    print_run(study)
    assert f"± {error / 1000:.2f} µs clock error" in " ".join(capsys.readouterr().err.split())
