"""Older torch: what is asked of it is there, or is not asked."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gapless.payload
from gapless.payload import compiling
from tests.payload import hooking

PAYLOAD = Path(gapless.payload.__file__).parent


@pytest.mark.parametrize("version", ["1.13.1+cu117", "2.0.1", "2.1.2+cu121", "2.2.2"])
def test_a_torch_that_does_not_tell_is_not_asked(version: str) -> None:
    old = SimpleNamespace(__version__=version, compiler=SimpleNamespace())
    assert compiling.defer_is_compiling(old)() is False


@pytest.mark.parametrize("version", ["2.3.0", "2.13.0+cpu", "3.0.0a0+git12", "nightly", ""])
def test_a_torch_that_tells_is_asked_each_time(version: str) -> None:
    answers = iter((True, False))
    compiler = SimpleNamespace(is_compiling=lambda: next(answers))
    is_compiling = compiling.defer_is_compiling(
        SimpleNamespace(__version__=version, compiler=compiler)
    )
    assert (is_compiling(), is_compiling()) == (True, False)


def test_a_build_before_the_release_may_lack_it() -> None:
    early = SimpleNamespace(__version__="2.3.0a0+git1", compiler=SimpleNamespace())
    assert compiling.defer_is_compiling(early)() is False


def test_what_is_there_is_taken_and_else_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compiling.get_is_compiling() is torch.compiler.is_compiling
    monkeypatch.delattr(torch.compiler, "is_compiling")
    assert compiling.get_is_compiling()() is False


def test_nothing_of_ours_takes_it_for_granted() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in PAYLOAD.rglob("*.py")}
    assert not [name for name, text in sources.items() if ".is_compiling" in text]


def test_optimizers_without_hooks_for_all_of_them_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module: Any = importlib.import_module("torch.optim.optimizer")
    monkeypatch.delattr(module, "_global_optimizer_pre_hooks")
    with hooking.install_hooks("optimizer") as recorder:
        assert recorder.unobserved == [
            ("optimizer steps", "torch before 2.0 has no hooks for all optimizers")
        ]
