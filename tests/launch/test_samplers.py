"""Samplers: figures that are right where the kernel has them, noted where it has not."""

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gapless import wire
from gapless.launch import process_tree
from gapless.launch.samplers import (
    AbsentError,
    Growth,
    cpu,
    disk,
    memory,
    network,
    pressure,
    round_value,
    sampling,
)
from gapless.launch.unobserved import Journal
from tests.launch import starting

S = 10**9
OWN_TREE = process_tree.Tree(os.getpid(), Path("/nowhere"))
OPENERS = {
    "cpu": lambda: cpu.open_sampler(OWN_TREE),
    "memory": memory.open_sampler,
    "disk": disk.open_sampler,
    "network": network.open_sampler,
}


def sample_twice(open_sampler: Callable[[], Callable[[int], Any]]) -> dict[str, float]:
    """Return what a sampler says a tenth of a second of work after its first look."""
    sampler = open_sampler()
    sampler(time.monotonic_ns())
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    return sampler(time.monotonic_ns())


@pytest.mark.parametrize("name", OPENERS)
def test_this_kernels_files_are_read(name: str) -> None:
    values = sample_twice(OPENERS[name])
    assert values
    assert all(key.startswith((f"{name}.", "process.")) for key in values)
    assert all(value >= 0 for value in values.values())


def test_processors_are_parted_into_ours_and_others() -> None:
    values = sample_twice(OPENERS["cpu"])
    assert 0 < values["cpu.tree"] <= 130  # a tick is 10 ms; others may want the processor, too
    assert values["cpu.foreign"] >= 0
    assert values["cpu.total"] <= 100 * (os.cpu_count() or 1) + 30


def test_of_a_run_that_is_bound_what_others_take_of_its_processors_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "cpu_count", lambda: len(allowed))
    assert "cpu.allowed" not in sample_twice(OPENERS["cpu"])
    monkeypatch.setattr(os, "cpu_count", lambda: len(allowed) + 8)
    values = sample_twice(OPENERS["cpu"])
    assert values["cpu.allowed"] == 100 * len(allowed)
    assert values["cpu.contending"] >= 0
    assert values["cpu.contending"] <= values["cpu.foreign"] + 100  # a part of all; ticks are 10 ms
    monkeypatch.setattr(os, "cpu_count", lambda: 1 << 20)
    other_processors = {
        (1 << 16) + number for number in allowed
    }  # /proc/stat of a container has no such
    monkeypatch.setattr(os, "sched_getaffinity", Mock(return_value=other_processors))
    assert "cpu.contending" not in sample_twice(OPENERS["cpu"])


def test_processes_that_live_for_less_than_a_look_are_ours() -> None:
    sampler = OPENERS["cpu"]()
    sampler(time.monotonic_ns())
    before = os.times()
    command = [sys.executable, "-S", "-c", "sum(range(3_000_000))"]
    for _ in range(2):
        subprocess.run(command, check=True)
    children_s = os.times().children_user - before.children_user
    start_s, now_s = before.elapsed, os.times().elapsed
    values = sampler(time.monotonic_ns())
    assert children_s > 0
    ticks = 0.05  # of 10 ms, four of them
    assert values["cpu.tree"] >= 100 * (children_s - ticks) / (now_s - start_s)


def test_a_process_is_described_now_and_then() -> None:
    sampler = cpu.open_sampler(OWN_TREE)
    looks = [sampler(time.monotonic_ns()) for _ in range(5)]
    name = f"process.{os.getpid()}"
    assert [f"{name}.threads" in look for look in looks] == [True, False, False, False, True]
    assert looks[0][f"{name}.rss"] > 1 << 20
    assert f"{name}.cpu" in looks[4]


def test_pages_that_a_first_thread_touches_are_counted() -> None:
    sampler = cpu.open_sampler(OWN_TREE)
    sampler(time.monotonic_ns())
    with mmap.mmap(-1, 64 << 20) as mapping:
        for offset in range(0, 64 << 20, 4096):
            mapping[offset] = 1
    values = sampler(time.monotonic_ns())
    name = f"process.{os.getpid()}"
    assert 0 <= values[f"{name}.kernel"] <= 150  # a tick is 10 ms
    assert (values[f"{name}.faults"] > 0) == (memory.measure_fault_ns() is not None)


def test_what_a_page_takes_is_measured_once() -> None:
    sampler = memory.open_sampler()
    first, second = (sampler(time.monotonic_ns()) for _ in range(2))
    assert "memory.fault_ns" not in second
    assert 10 < first.get("memory.fault_ns", 1000) < 10_000_000


def test_memory_is_in_bytes() -> None:
    values = memory.open_sampler()(time.monotonic_ns())
    assert 1 << 28 < values["memory.available"] < values["memory.total"]


def test_pressure_is_in_per_cent_or_absent() -> None:
    try:
        values = sample_twice(pressure.open_sampler)
    except AbsentError as error:
        assert "/proc/pressure" in str(error)  # noqa: PT017 - a kernel without it
    else:
        assert all(0 <= value <= 110 for value in values.values())
        assert "pressure.io.full" in values


def test_the_first_reading_of_a_counter_and_one_that_began_anew_say_nothing() -> None:
    growth = Growth()
    rates = [growth.rate("x", second * S, value) for second, value in enumerate((5, 25, 3, 4))]
    assert rates == [None, 20.0, None, 1.0]


@pytest.mark.parametrize(
    ("value", "rounded"), [(2.0, 2), (1 / 3, 0.333), (123456.7, 123456), (0.0, 0)]
)
def test_values_have_the_digits_that_they_are_worth(value: float, rounded: float) -> None:
    assert round_value(value) == rounded


def test_a_day_makes_no_more_than_15_000_samples() -> None:
    elapsed_s, samples = 0.0, 0
    while elapsed_s < 86_400:
        elapsed_s += sampling.period_s(elapsed_s, 0.001)
        samples += 1
    assert 10_000 < samples < 15_000
    assert sampling.period_s(600, 0.001) == 0.5
    assert sampling.period_s(0, 0.02) == 5.0  # what costs 20 ms comes seldom


def read_frames(journal: Journal, kind: int) -> list[dict[str, Any]]:
    log = (journal.spool / "samples.log").read_bytes()
    return [frame.text() for frame in wire.frames(log)[0] if frame.kind == kind]


def sample_six_times(
    factories: dict[str, sampling.SamplerFactory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Journal:
    """Return the journal of six samples."""
    journal, stop = Journal(tmp_path), threading.Event()
    looks = 0

    def count(*_: float) -> float:
        nonlocal looks
        looks += 1
        if looks == 6:
            stop.set()
        return 0.0

    monkeypatch.setattr(sampling, "period_s", count)
    sampling.sample_until(stop, factories, journal)
    return journal


def test_a_sampler_that_is_absent_or_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def open_absent() -> sampling.Sampler:
        raise AbsentError("not here")

    def open_broken() -> sampling.Sampler:
        raise ValueError("at the start")

    def sample_and_fail(now_ns: int) -> dict[str, float]:
        calls.append(now_ns)
        if len(calls) > 2:
            raise OSError(5, "gone")
        return {"fails.x": 1}

    journal = sample_six_times(
        {
            "absent": open_absent,
            "broken": open_broken,
            "fails": lambda: sample_and_fail,
            "good": lambda: sample_steadily,
        },
        tmp_path,
        monkeypatch,
    )
    assert {note.what: note.why for note in journal.list_unobserved()} == {
        "absent": "not here",
        "broken": "ValueError: at the start",
        "fails": "gave up: OSError: gone",
    }
    values = [frame["values"] for frame in read_frames(journal, wire.SAMPLE)]
    assert len(values) == 6
    assert all(value["good.x"] == 2 for value in values)
    assert [("fails.x" in value) for value in values] == [True, True, False, False, False, False]
    assert len(calls) == 5  # and then no more


def sample_steadily(_: int) -> dict[str, float]:
    return {"good.x": 2}


# ── In a run ────────────────────────────────────────────────────────────────────────────────────


def test_samples_are_in_the_run_folder(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(starting.SAMPLED_PROGRAM)
    script = f"{sys.executable} seen.py {starting.SAMPLES_LOG} & wait"
    starting.run(["bash", "-c", script], tmp_path)
    home = starting.run_folder(tmp_path)
    samples = starting.samples(home)
    assert len(samples) >= 2
    names = {name for values in samples for name in values}
    assert {"cpu.total", "cpu.tree", "cpu.launcher", "memory.available"} <= names
    processes = {name.split(".")[1] for name in names if name.startswith("process.")}
    assert len(processes) == 2  # bash and Python, not the launcher
    if not any(name.startswith("gpu") for name in names):
        assert starting.read_unobserved(home)["gpu"].startswith("NVML: ")
