"""A loop without an optimizer of torch's is recorded as well, and runs as it would alone."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import (
    WrittenLog,
    logs_by_process,
    read_logs,
    run_preloaded,
    run_recorded,
    script_command,
)

KINDS = (wire.USER_STEP, wire.STEP, wire.BACKWARD, wire.FORWARD)
MARKS = {
    "by_hand": (0, 0, 12, 0),
    "own_optimizer": (0, 0, 24, 0),
    "autograd_grad": (0, 0, 12, 0),
    "func_grad": (0, 0, 12, 0),
    "nested": (0, 0, 12, 0),
    "inference": (0, 0, 0, 12),
    "generation": (0, 0, 0, 12),
    "marked": (12, 0, 0, 0),
    "trained": (0, 12, 5, 0),
}
ARMS = ("by_hand", "func_grad", "inference", "marked")
WINDOWED = ("inference", "by_hand", "marked")


def logs_by_name(folder: Path, names: Iterable[str]) -> Mapping[str, WrittenLog]:
    """Return the logs by the loop that made them."""
    logs_by_pid = logs_by_process(folder / "spool")
    return {name: logs_by_pid[int((folder / name).read_text())] for name in names}


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, WrittenLog]:
    folder = tmp_path_factory.mktemp("loops")
    command = script_command("any_loops.py", ",".join(MARKS))
    plain = run_preloaded(command, folder)
    recorded = run_recorded(command, folder, folder / "spool")
    assert plain.code == 0, plain.err
    assert recorded == plain
    (unstepped,) = (folder / "spool").glob("unstepped-*")  # of none of them: they step
    assert json.loads(unstepped.read_text())["last"]
    return logs_by_name(folder, MARKS)


@pytest.mark.parametrize("name", MARKS)
def test_each_loop_runs_as_alone_and_its_steps_are_marked(
    name: str, loops: Mapping[str, WrittenLog]
) -> None:
    log = loops[name]
    assert set(log.unobserved_reasons()) <= {"model"}
    assert tuple(log.count(kind) for kind in KINDS) == MARKS[name]
    for site in log.facts("site"):
        assert site["file"].endswith("any_loops.py")
    for module in log.facts("module"):
        assert module["values"]["class"].endswith("Sequential")


@pytest.mark.slow
def test_before_anything_is_compiled_modules_are_as_they_were(tmp_path: Path) -> None:
    command = script_command("any_loops.py", "compiled")
    assert run_recorded(command, tmp_path, tmp_path / "spool") == run_preloaded(command, tmp_path)
    (log,) = read_logs(tmp_path / "spool").values()
    assert log.count(wire.FORWARD) == 4


@pytest.fixture(scope="module")
def windowed_loops(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, WrittenLog]:
    folder = tmp_path_factory.mktemp("windows")
    command = script_command("any_loops.py", ",".join(WINDOWED), "600")
    options = '{"check": false, "windows": true, "any_cost": true}'
    plain = run_preloaded(command, folder)
    assert plain.code == 0, plain.err
    assert run_recorded(command, folder, folder / "spool", GAPLESS_OPTIONS=options) == plain
    return logs_by_name(folder, WINDOWED)


@pytest.mark.parametrize("name", WINDOWED)
def test_windows_open_and_close_at_such_steps(
    name: str, windowed_loops: Mapping[str, WrittenLog]
) -> None:
    log = windowed_loops[name]
    windows = [text for kind, text in log.texts if kind == wire.WINDOW]
    assert sum(text.get("discarded") is None for text in windows) >= 2, "one of them with stacks"


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, WrittenLog]:
    folder = tmp_path_factory.mktemp("arms")
    command = script_command("any_loops.py", ",".join(ARMS), "3000")
    plan = '{"windows": false, "trial": {"stop": 24, "seconds": 60, "seed": 7, "losses": 9}}'
    assert run_recorded(command, folder, folder / "spool", GAPLESS_OPTIONS=plan) == (0, "", "")
    return logs_by_name(folder, ARMS)


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_of_a_trial_leaves_at_the_planned_step_of_such_a_loop(
    name: str, arms: Mapping[str, WrittenLog]
) -> None:
    log = arms[name]
    (arm,) = [text for kind, text in log.texts if kind == wire.TRIAL]
    assert arm["stopped"] == 24
    n_steps = max(log.count(kind) for kind in KINDS)
    assert 24 <= n_steps <= 26


def test_gapless_step_is_there_where_gapless_is_not_installed(tmp_path: Path) -> None:
    text = "import torch, sys\nimport gapless\nprint(gapless.__name__, hasattr(gapless, 'open'))\n"
    (tmp_path / "t.py").write_text(
        "import sys\nsys.path = [one for one in sys.path if not one.endswith('src')]\n"
        + text
        + "for _ in range(6): gapless.step()\n"
    )
    command = [script_command("any_loops.py")[0], "t.py"]
    assert run_preloaded(command, tmp_path).code == 1
    assert run_recorded(command, tmp_path, tmp_path / "spool") == (0, "gapless False\n", "")
    (log,) = read_logs(tmp_path / "spool").values()
    assert log.count(wire.USER_STEP) == 6
