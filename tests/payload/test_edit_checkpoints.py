"""Checkpoints left out, or written more rarely: code that uses their files goes on."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from gapless.model.edit import Wrap
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from pathlib import Path

NO_CHECKPOINT = Wrap("torch.save", "no-checkpoint")


EACH_SECOND = Wrap("torch.save", "cadence", {"what": "checkpoint", "every": 2})


def save(value: int, path: Path | str) -> None:
    torch.save({"step": value}, path)


def load_step(path: Path) -> int:
    return torch.load(path)["step"]


def test_a_file_that_is_saved_again_stays_the_first_with_a_new_time(tmp_path: Path) -> None:
    before = torch.save
    path = tmp_path / "last.pt"
    with apply_edits(NO_CHECKPOINT) as edit_log:
        for step in range(4):
            save(step, str(path))
            if step == 0:
                os.utime(path, (1, 1))
        assert load_step(path) == 0
        assert path.stat().st_mtime > 1
        assert edit_log.times() == 3
    assert torch.save is torch.serialization.save is before
    save(9, path)
    assert load_step(path) == 9


def test_numbered_files_and_renamed_ones_are_all_there(tmp_path: Path) -> None:
    with apply_edits(NO_CHECKPOINT) as edit_log:
        for step in range(3):
            save(step, tmp_path / f"step{step}.pt")
        for step in range(3):  # written elsewhere first, then put in its place
            torch.save({"epoch": step}, tmp_path / "part")
            (tmp_path / "part").replace(tmp_path / "whole.pt")
        assert edit_log.times() == 4
    assert [load_step(tmp_path / f"step{step}.pt") for step in range(3)] == [0, 0, 0]
    assert torch.load(tmp_path / "whole.pt") == {"epoch": 0}


def test_what_one_line_saves_of_several_kinds_stays_apart(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    with apply_edits(NO_CHECKPOINT) as edit_log:
        for step in range(2):
            states = {"model": model.state_dict(), "optimizer": optim.state_dict()}
            for name, state in states.items():
                torch.save(state, tmp_path / f"{name}{step}.pt")
        assert edit_log.times() == 2
    model.load_state_dict(torch.load(tmp_path / "model1.pt"))
    optim.load_state_dict(torch.load(tmp_path / "optimizer1.pt"))


def test_where_the_first_was_deleted_the_next_is_written_again(tmp_path: Path) -> None:
    with apply_edits(NO_CHECKPOINT) as edit_log:
        for step in range(3):
            save(step, tmp_path / f"{step}.pt")
            if step == 0:
                (tmp_path / "0.pt").unlink()
        assert edit_log.times() == 1
    assert [load_step(tmp_path / f"{step}.pt") for step in (1, 2)] == [1, 1]


def test_what_is_saved_into_memory_is_saved_and_told_of() -> None:
    with apply_edits(NO_CHECKPOINT) as edit_log:
        for step in range(2):
            buffer = io.BytesIO()
            torch.save(step, buffer)
            buffer.seek(0)
            assert torch.load(buffer) == step
        assert edit_log.times() == 0
        assert (
            edit_log.unobserved
            == ["no checkpoint: saved into memory or an open file: it was saved"] * 2
        )


def test_a_save_that_fails_fails_as_ever(tmp_path: Path) -> None:
    with apply_edits(NO_CHECKPOINT), pytest.raises(RuntimeError, match="Parent directory"):
        save(1, tmp_path / "none" / "a.pt")
    with apply_edits(NO_CHECKPOINT):
        save(1, tmp_path / "a.pt")
        for _ in range(2):
            with contextlib.suppress(RuntimeError):
                save(2, tmp_path / "none" / "a.pt")
        assert not (tmp_path / "none").exists()


def test_each_second_checkpoint_is_written(tmp_path: Path) -> None:
    with apply_edits(EACH_SECOND) as edit_log:
        steps: list[int] = []
        for step in range(1, 6):
            save(step, tmp_path / "last.pt")
            steps.append(load_step(tmp_path / "last.pt"))
        assert steps == [1, 2, 2, 4, 4]
        assert edit_log.times() == 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # it says that it is alone
def test_distributed_checkpoints_are_saved_once_and_found_in_each_folder(tmp_path: Path) -> None:
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    weights = {"weight": torch.ones(3)}
    with apply_edits(NO_CHECKPOINT) as edit_log:
        results: list[object] = []
        for name in ("1", "2", "2"):
            results.append(dcp.save(weights, checkpoint_id=tmp_path / name, no_dist=True))
            weights["weight"] += 1
        assert edit_log.times() == 2
    assert results[0] is not None
    assert results[1] is results[2] is results[0]
    loaded = {"weight": torch.zeros(3)}
    dcp.load(loaded, checkpoint_id=tmp_path / "2", no_dist=True)
    assert loaded["weight"].tolist() == [1.0, 1.0, 1.0]
