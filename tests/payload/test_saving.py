"""Checkpoints as marks: ``hooks/saving.py``."""

import importlib
import inspect
import io
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from gapless import wire
from tests.payload import hooking


def test_a_save_is_a_mark_with_the_line_and_the_size(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with hooking.install_hooks("saving") as recorder:
        line = inspect.currentframe().f_lineno + 1  # pyright: ignore[reportOptionalMemberAccess]
        torch.save({"a": torch.arange(5)}, path)
    (mark,) = recorder.marks_of(wire.CHECKPOINT)
    assert mark.start < mark.end
    assert mark.value == path.stat().st_size
    assert recorder.sites[mark.subject][:2] == (__file__, line)
    assert recorder.written_paths() == [str(path)]
    assert torch.load(path)["a"].tolist() == [0, 1, 2, 3, 4]


def test_the_file_is_noted_whatever_it_was_given_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with hooking.install_hooks("saving") as recorder:
        torch.save(1, "one.pt")
        torch.save(2, f=tmp_path / "two.pt")
        with (tmp_path / "three.pt").open("wb") as file:
            torch.save(3, file)
    assert recorder.written_paths() == [
        str(tmp_path / f"{name}.pt") for name in ("one", "two", "three")
    ]


def test_saving_into_memory_is_a_mark_without_a_file() -> None:
    buffer = io.BytesIO()
    with hooking.install_hooks("saving") as recorder:
        torch.save([1, 2], buffer)
    assert [mark.value for mark in recorder.marks_of(wire.CHECKPOINT)] == [-1]
    assert recorder.written_paths() == []


def test_only_the_outermost_save_is_a_mark(tmp_path: Path) -> None:
    class Saver:
        def __reduce__(self) -> tuple[object, ...]:
            torch.save(1, tmp_path / "inner.pt")
            return (list, ())

    with hooking.install_hooks("saving") as recorder:
        torch.save(Saver(), tmp_path / "outer.pt")
        torch.save(2, tmp_path / "next.pt")
    assert recorder.written_paths() == [str(tmp_path / "outer.pt"), str(tmp_path / "next.pt")]


def test_saves_of_two_threads_are_both_marks(tmp_path: Path) -> None:
    class Slow:
        def __reduce__(self) -> tuple[object, ...]:
            thread = threading.Thread(target=torch.save, args=(1, tmp_path / "other.pt"))
            thread.start()
            thread.join()
            return (list, ())

    with hooking.install_hooks("saving") as recorder:
        torch.save(Slow(), tmp_path / "first.pt")
    assert len(recorder.marks_of(wire.CHECKPOINT)) == 2


def test_a_save_that_fails_fails_as_it_would(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "model.pt"

    def save() -> None:
        torch.save(1, target)

    plain = hooking.traceback_of(save)
    with hooking.install_hooks("saving") as recorder:
        observed = hooking.traceback_of(save)
    assert plain
    assert observed == plain
    assert [mark.flags for mark in recorder.marks_of(wire.CHECKPOINT)] == [wire.RAISED]
    assert recorder.written_paths() == []


def test_what_was_replaced_is_put_back() -> None:
    owners: list[Any] = [torch, torch.serialization, torch.jit]
    before: list[Any] = [vars(owner)["save"] for owner in owners]
    with hooking.install_hooks("saving"):
        replaced = vars(torch)["save"]
        assert replaced is not before[0]
        assert replaced is vars(torch.serialization)["save"]
        assert pickle.loads(pickle.dumps(replaced)) is replaced  # noqa: S301 - our own
        assert inspect.signature(replaced) == inspect.signature(before[0])
    assert [vars(owner)["save"] for owner in owners] == before


def test_a_scripted_model_that_is_saved_is_a_mark(tmp_path: Path) -> None:
    def save() -> None:  # tracing warns that it is old
        model = torch.nn.Linear(2, 2)
        torch.jit.save(torch.jit.trace(model, torch.ones(1, 2)), str(tmp_path / "scripted.pt"))

    with hooking.install_hooks("saving") as recorder:
        hooking.warnings_of(save)
    assert recorder.written_paths() == [str(tmp_path / "scripted.pt")]


def test_safetensors_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "safetensors"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text(
        "def save_file(tensors, filename, metadata=None):\n"
        "    with open(filename, 'w') as file:\n"
        "        file.write('12345')\n"
        "def save_model(model, filename):\n"
        "    save_file(model, filename)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with hooking.install_hooks("saving") as recorder:
        importlib.import_module("safetensors.torch").save_model({}, str(tmp_path / "x"))
    for name in [name for name in sys.modules if name.startswith("safetensors")]:
        monkeypatch.delitem(sys.modules, name)
    assert [mark.value for mark in recorder.marks_of(wire.CHECKPOINT)] == [5]


def test_a_distributed_checkpoint_is_one_mark(tmp_path: Path) -> None:
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    with hooking.install_hooks("saving") as recorder:
        hooking.warnings_of(
            lambda: dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
        )
    assert len(recorder.marks_of(wire.CHECKPOINT)) == 1
    assert recorder.written_paths() == [str(tmp_path / "dcp")]
