"""``gapless.record()``: this process is recorded, and afterwards it is as it was."""

import gc
import json
import os
import sys
import threading
from pathlib import Path

import pytest
import torch

import gapless
from gapless import wire
from tests.payload.loop_shapes import DATA, train_over  # pyright: ignore[reportUnknownVariableType]
from tests.payload.watching import read_logs

HOOKED_MODULES = (
    "torch.utils.data",
    "torch.optim",
    "torch.serialization",
    "multiprocessing.spawn",
    "os",
)


def snapshot() -> dict[object, object]:
    """Return the identity of whatever a hook may have replaced."""
    identities: dict[object, object] = {
        "gc": [id(callback) for callback in gc.callbacks],
        "finders": [id(finder) for finder in sys.meta_path],
        "path": list(sys.path),
        "environment": dict(os.environ),
        "hooks": list(vars(sys.modules["torch.optim.optimizer"])["_global_optimizer_post_hooks"]),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith(HOOKED_MODULES):
            for attribute, value in list(vars(module).items()):
                identities[name, attribute] = id(value)
                members: dict[str, object] = dict(vars(value)) if isinstance(value, type) else {}
                for member, member_value in members.items():
                    if not member.startswith("_abc"):
                        identities[name, attribute, member] = id(member_value)
    return identities


def find_changes(before: dict[object, object], threads: set[threading.Thread]) -> list[object]:
    """Return what is not as it was. Threads that other tests have left may end meanwhile."""
    after = snapshot()
    changes = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    return [*changes, *(set(threading.enumerate()) - threads)]


def test_everything_is_put_back_the_same_objects_and_it_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_over(torch.utils.data.DataLoader(DATA, 6))  # torch imports the rest of itself by now
    before, threads = snapshot(), set(threading.enumerate())
    for _ in range(2):
        with gapless.record() as run:
            train_over(torch.utils.data.DataLoader(DATA, 6), epochs=2)
        assert find_changes(before, threads) == []
        assert run.parent == tmp_path / ".gapless" / "runs"
        assert json.loads((run / "run.json").read_text())["status"] == "finished"
        log = read_logs(run / "logs")["rank0"]
        assert log.count(wire.STEP) == 8
        assert log.texts[-1][1]["how"] == "record"


def test_an_error_in_the_block_is_the_users_and_the_run_is_failed(tmp_path: Path) -> None:
    before, threads = snapshot(), set(threading.enumerate())
    with pytest.raises(KeyError, match="mine"), gapless.record(tmp_path):
        raise KeyError("mine")
    assert find_changes(before, threads) == []
    (run,) = (folder for folder in tmp_path.iterdir() if folder.is_dir())
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    assert not (run / "logs").exists(), "nothing stepped"


def test_within_a_recorded_run_nothing_more_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.SPOOL, str(tmp_path / "spool"))
    before, threads = snapshot(), set(threading.enumerate())
    with gapless.record(tmp_path / "other") as run:
        assert find_changes(before, threads) == []
    assert run == tmp_path / "spool"
    assert not (tmp_path / "other").exists()
