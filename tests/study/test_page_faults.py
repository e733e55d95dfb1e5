"""What memory the kernel hands a training anew: sampled from outside, without what windows add."""

import io

import pytest

from gapless.model.recording import Window
from gapless.model.run import PageFaults
from gapless.report.run.page import print_run
from gapless.study import Options, study_recording
from tests.study.recording import MS, Log, recording

TIMES = [500.0 * number for number in range(13)]
BEFORE = 4  # samples that end before a window begins


def training_log(*windows: tuple[float, float]) -> Log:
    log = Log(end=6200)
    log.add_fact("machine", 0, None, cpus=2, cpus_of_machine=2)
    log.add_steps(*range(100, 6200, 50))
    for number, (start, end) in enumerate(windows):
        ns = round(start * MS), round(end * MS)
        window = Window(
            number, None, *ns, 1, 2, stacks=False, stop_ns=None, save_ns=None, discarded="a test"
        )
        log.windows.append(window)
    return log


def find_page_faults(
    log: Log, faults: list[float], kernel: list[float], resident: list[float] | None = None
) -> PageFaults | None:
    series = {
        "memory.fault_ns": ([0.0], [1000.0]),
        "memory.page_bytes": ([0.0], [4096.0]),
        "process.10.faults": (TIMES, faults),
        "process.10.kernel": (TIMES, kernel),
        "process.10.rss": (TIMES, resident or [1e9] * len(TIMES)),
    }
    study = study_recording(recording(log, series=series, ended_ms=6200), Options())
    assert study.recorded is not None
    return study.recorded.page_faults


def test_faults_of_a_step_are_the_median_of_what_lies_in_steps() -> None:
    faults = find_page_faults(training_log(), [9e6, 9e6, *[2e5] * 11], [90.0, 90.0, *[40.0] * 11])
    assert faults is not None
    assert faults.count == pytest.approx(10_000)  # 200,000 a second, 20 steps a second
    assert faults.kernel_ns == pytest.approx(20 * MS)
    assert faults.step_ns == pytest.approx(50 * MS)
    assert (faults.fault_ns, faults.since_window) == (1000.0, None)


def test_memory_that_a_process_comes_to_hold_is_not_handed_out_anew() -> None:
    growing = [4096 * 1e5 * ms / 1000 for ms in TIMES]
    faults = find_page_faults(training_log(), [2e5] * 13, [40.0] * 13, growing)
    assert faults is not None
    assert faults.count == pytest.approx(5_000)


def test_before_a_window_counts_and_what_it_changed_is_told() -> None:
    log = training_log((1600, 1900))
    faults = find_page_faults(log, [2e5] * BEFORE + [0.0] * 9, [40.0] * 13)
    assert faults is not None
    assert (faults.count, faults.since_window) == (pytest.approx(10_000), 0.0)


def test_a_second_before_a_window_is_too_short_to_tell_what_it_changed() -> None:
    faults = find_page_faults(training_log((1100, 1400)), [2e5] * 13, [40.0] * 13)
    assert faults is not None
    assert faults.since_window is None


def test_of_steps_longer_than_a_sample_the_mean_counts() -> None:
    log = Log(end=6200)
    log.add_steps(*range(100, 6200, 1500))
    faults = find_page_faults(log, [0.0, 0.0, 0.0, *[3e5, 0.0, 0.0] * 3, 0.0], [0.0] * 13)
    assert faults is not None
    assert faults.count == pytest.approx(450_000 / (5.5 / 1.5))  # of 5.5 s, in steps of 1.5 s


def test_without_samples_nothing_is_said() -> None:
    study = study_recording(recording(training_log(), ended_ms=6200), Options())
    assert study.recorded is not None
    assert study.recorded.page_faults is None


def test_a_report_tells_that_the_recording_changed_the_training() -> None:
    series = {
        "memory.fault_ns": ([0.0], [1000.0]),
        "memory.page_bytes": ([0.0], [4096.0]),
        "process.10.faults": (TIMES, [2e5] * BEFORE + [0.0] * 9),
        "process.10.kernel": (TIMES, [40.0] * 13),
        "process.10.rss": (TIMES, [1e9] * 13),
    }
    log, stream = training_log((1600, 1900)), io.StringIO()
    print_run(study_recording(recording(log, series=series, ended_ms=6200), Options()), stream)
    above = " ".join(stream.getvalue().partition("where a step goes")[0].split())
    assert (
        "the recording changed the training: since its first window a step has 0 page faults, "
        "before it 10,000 (about 10.0 ms a step less)"
    ) in above
