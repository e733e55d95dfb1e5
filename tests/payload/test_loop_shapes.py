"""Each loop runs as it would alone, and its steps, batches and workers are recorded."""

from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import (
    WrittenLog,
    read_logs,
    run_preloaded,
    run_recorded,
    script_command,
)

ALONE = (
    "for_loop",
    "iter_next",
    "accumulation",
    "gan",
    "lbfgs",
    "scaled",
    "no_optimizer",
    "no_loader",
    "iterable",
    "several",
    "unbatched",
    "custom",
    "early_break",
)
WITH_WORKERS = ("workers", "persistent", "iterable_workers", "broken_off")
STEPS = 12 + 6 + 3 + 24 + 6 + 6 + 0 + 6 + 6 + 6 + 4 + 24 + 3 + 6 + 12 + 14 + 6 + 2
BATCHES = 12 + 6 + 12 + 6 + 6 + 6 + 6 + 0 + 6 + 6 + 4 + 24 + 3 + 9 + 12 + 15 + 6 + 4
ITERATIONS = 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 3 + 2 + 3 + 1 + 2


def compare_runs(names: tuple[str, ...], folder: Path) -> dict[str, WrittenLog]:
    """Compare both runs; give what was recorded."""
    command = script_command("loop_shapes.py", *names)
    plain = run_preloaded(command, folder)
    recorded = run_recorded(command, folder, folder / "spool")
    assert plain.code == 0, plain.err
    assert recorded.out.splitlines() == plain.out.splitlines()
    assert recorded.err.splitlines() == plain.err.splitlines()
    assert recorded.code == plain.code
    return read_logs(folder / "spool")


@pytest.fixture(scope="module")
def logs_of_all(tmp_path_factory: pytest.TempPathFactory) -> dict[str, WrittenLog]:
    return compare_runs(ALONE + WITH_WORKERS, tmp_path_factory.mktemp("loops"))


def test_loops_run_as_alone_and_every_step_and_batch_is_seen(
    logs_of_all: dict[str, WrittenLog],
) -> None:
    log = logs_of_all["rank0"]
    assert log.is_complete
    assert set(log.unobserved_reasons()) <= {"model"}  # nobody told it to train
    assert log.count(wire.STEP) == STEPS
    batch_marks = [
        mark for mark in log.marks if mark[0] == wire.NEXT and not mark[1] & wire.EXHAUSTED
    ]
    assert len(batch_marks) == BATCHES
    assert log.count(wire.ITER) == ITERATIONS
    assert log.kinds()[wire.END] == 1
    for optimizer in log.facts("optimizer"):
        assert optimizer["file"].endswith("loop_shapes.py")
    lines = {fact["line"] for fact in log.facts("loader")}
    assert (len(log.facts("loader")), len(lines)) == (13 + 4, 12 + 4), "one line made two"


def test_workers_are_seen_and_know_their_loader(logs_of_all: dict[str, WrittenLog]) -> None:
    training = logs_of_all["rank0"]
    assert training.count(wire.DISPATCH) > 12 + 14 + 6
    assert training.count(wire.CLOSE) == 2 + 1 + 1 + 2
    loaders = {fact["id"] for fact in training.facts("loader") if fact["values"]["num_workers"]}
    assert len(loaders) == 4
    writers: set[tuple[int, int]] = set()
    for name, log in logs_of_all.items():
        if name == "rank0":
            continue
        assert log.is_complete, name
        for process in (text for kind, text in log.texts if kind == wire.PROCESS):
            assert name.startswith(f"rank0-worker{process['worker']}")
            assert process["role"] == "worker"
            writers.add((process["loader"], process["worker"]))
        assert {row["loader"] for row in log.batches} <= loaders
    assert writers == {(loader, worker) for loader in loaders for worker in range(2)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spawned", "served"])
def test_workers_that_start_from_nothing_know_their_loader(tmp_path: Path, name: str) -> None:
    logs_by_name = compare_runs((name,), tmp_path)
    assert logs_by_name["rank0"].count(wire.STEP) == (3 if name == "spawned" else 6)
    assert [log_name for log_name in logs_by_name if "worker" in log_name] == ["rank0-worker0"]
    log = logs_by_name["rank0-worker0"]
    loaders = [text["loader"] for kind, text in log.texts if kind == wire.PROCESS]
    assert loaders == ([0, 1] if name == "served" else [0])
    assert log.is_complete
    assert log.kinds()[wire.END] == len(loaders)


@pytest.mark.slow
def test_compiling_makes_the_same_graphs(tmp_path: Path) -> None:
    log = compare_runs(("compiled",), tmp_path)["rank0"]
    assert log.count(wire.STEP) >= 6 + 6
