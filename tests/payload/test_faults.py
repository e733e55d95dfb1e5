"""Whatever goes wrong in the recorder or around it, the training runs as it would alone."""

import signal
import sys
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

KILLED = """
import os, time, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(6):
    model(torch.ones(2)).backward()
    optimizer.step()
    time.sleep(0.11)
{fate}
"""


def compare_runs(names: tuple[str, ...], folder: Path) -> dict[str, WrittenLog]:
    """Compare both runs; give what was recorded."""
    command = script_command("misdeeds.py", *names)
    plain = run_preloaded(command, folder)
    recorded = run_recorded(command, folder, folder / "spool")
    assert plain.code == 0, plain.err
    assert recorded.out.splitlines() == plain.out.splitlines()
    assert recorded.err.splitlines() == plain.err.splitlines()
    assert recorded.code == plain.code
    return read_logs(folder / "spool")


def test_a_recorder_that_breaks_anywhere_says_so_and_the_training_goes_on(tmp_path: Path) -> None:
    log = compare_runs(("broken_recorder",), tmp_path)["rank0"]
    assert log.count(wire.STEP) > 0
    assert "RuntimeError('a hook of ours is broken')" in log.unobserved_reasons().values()


def test_errors_vandals_closed_descriptors_and_a_full_disk_cost_records_and_nothing_else(
    tmp_path: Path,
) -> None:
    log = compare_runs(("errors", "vandal", "threads", "closed", "full"), tmp_path)["rank0"]
    assert log.is_complete
    assert log.kinds()[wire.END] == 1
    assert "records" in log.unobserved_reasons()
    n_before = 1 + 6 + 6 + 40 + 30  # what errors left of their loops, and so on
    assert n_before + 96 < log.count(wire.STEP) < n_before + 6 * 96
    raising_marks = [mark for mark in log.marks if mark[0] == wire.NEXT and mark[1] & wire.RAISED]
    assert len(raising_marks) == 3
    assert len({mark[3] for mark in log.marks if mark[0] == wire.STEP}) == 3, "three threads"


@pytest.mark.slow
@pytest.mark.parametrize("names", [("vanished",), ("forks", "epochs"), ("alarms",)])
def test_other_misdeeds(tmp_path: Path, names: tuple[str, ...]) -> None:
    logs_by_name = compare_runs(names, tmp_path)
    if "forks" in names:
        child = next(log for name, log in logs_by_name.items() if name != "rank0")
        assert (child.count(wire.STEP), child.kinds()[wire.END]) == (6, 1)
        assert logs_by_name["rank0"].count(wire.ITER) == 1 + 1 + 10_000


@pytest.mark.parametrize(
    ("fate", "code"),
    [
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        pytest.param("os._exit(4)", 4, marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", 3, marks=pytest.mark.slow),
    ],
)
def test_a_run_can_be_read_to_its_last_step_however_it_ended(
    tmp_path: Path, fate: str, code: int
) -> None:
    command = [sys.executable, "-c", KILLED.format(fate=fate)]
    recorded = run_recorded(command, tmp_path, tmp_path / "spool")
    log = read_logs(tmp_path / "spool")["rank0"]
    assert (recorded.code, recorded.err) == (code, "")
    assert log.is_complete
    assert log.count(wire.STEP) == 6
    assert log.kinds()[wire.END] == (0 if code == -signal.SIGKILL else 1)
