"""The user's own profilers: ``hooks/profilers.py``."""

import importlib
import inspect
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import profiler as autograd_profiler

from gapless import wire
from tests.payload import hooking

MAKERS: dict[str, Callable[[], object]] = {
    "torch.profiler": lambda: torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ),
    "autograd": lambda: autograd_profiler.profile(use_kineto=True),
    "nvtx": autograd_profiler.emit_nvtx,
    "itt": autograd_profiler.emit_itt,
    "legacy": lambda: importlib.import_module("torch.autograd.profiler_legacy").profile(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_we_make_way_before_the_users_profiler_is_made(name: str) -> None:
    order: list[str] = []
    with hooking.install_hooks("profilers") as recorder:
        profilers = hooking.hook_module("profilers")
        profilers.on_user_profiler(lambda: order.append("ours ends"))
        assert not profilers.user_profiler()
        hooking.warnings_of(MAKERS[name])
        hooking.warnings_of(MAKERS[name])
        order.append("theirs is made")
        assert profilers.user_profiler()
    assert order == ["ours ends", "theirs is made"]
    (mark,) = recorder.marks_of(wire.USER_PROFILER)
    assert mark.start == mark.end


def test_a_profiler_that_is_switched_off_is_none() -> None:
    with hooking.install_hooks("profilers") as recorder:
        for profile in (autograd_profiler.profile, autograd_profiler.emit_nvtx):
            with profile(False):  # noqa: FBT003 - as scripts give it
                torch.ones(2).add(1)
            with profile(enabled=False):
                torch.ones(2).add(1)
        assert not hooking.hook_module("profilers").user_profiler()
    assert recorder.marks_of(wire.USER_PROFILER) == []


def test_the_cuda_profiler_is_seen_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: order.append("started"))
    with hooking.install_hooks("profilers"):
        hooking.hook_module("profilers").on_user_profiler(lambda: order.append("ours ends"))
        torch.cuda.profiler.start()
    assert order == ["ours ends", "started"]


def test_a_failing_action_does_not_reach_the_user() -> None:
    def fail() -> None:
        raise RuntimeError("ours")

    with hooking.install_hooks("profilers") as recorder:
        profilers = hooking.hook_module("profilers")
        profilers.on_user_profiler(fail)
        with MAKERS["torch.profiler"]():  # pyright: ignore[reportGeneralTypeIssues]
            torch.ones(2).add(1)
        from gapless.payload.process_state import STATE  # noqa: PLC0415 - the note is expected, once

        assert "ours" in STATE.notes.pop()[1]
    assert recorder.marks_of(wire.USER_PROFILER)


def test_the_time_under_the_users_profiler_and_the_trace_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with hooking.install_hooks("profilers") as recorder:
        with torch.profiler.profile() as profiler:
            torch.ones(2).add(1)
        profiler.export_chrome_trace(str(path))
    creation, on = recorder.marks_of(wire.USER_PROFILER)
    assert (creation.value, on.value) == (0, 1)
    assert creation.start <= on.start < on.end
    assert recorder.written == [(wire.FILES, {"read": {}, "written": [str(path)], "kind": "trace"})]
    assert json.loads(path.read_text())["traceEvents"]


def test_traces_for_tensorboard_are_noted(tmp_path: Path) -> None:
    with hooking.install_hooks("profilers") as recorder:
        profiler_module: Any = importlib.import_module("torch.profiler")
        handler = profiler_module.tensorboard_trace_handler(str(tmp_path), use_gzip=True)
        schedule = profiler_module.schedule(wait=0, warmup=1, active=1, repeat=2)
        with torch.profiler.profile(schedule=schedule, on_trace_ready=handler) as profiler:
            for _ in range(4):
                torch.ones(2).add(1)
                hooking.warnings_of(profiler.step)
    assert sorted(recorder.written_paths()) == sorted(str(path) for path in tmp_path.iterdir())
    assert len(recorder.written_paths()) == 2


def test_what_a_profiler_takes_at_its_ends_is_marked_once() -> None:
    handled: list[int] = []

    def handle(profiler: torch.profiler.profile) -> None:
        profiler.key_averages()
        handled.append(len(recorder.marks_of(wire.PROFILING)))

    with hooking.install_hooks("profilers") as recorder:
        torch_profiler: Any = importlib.import_module("torch.profiler")
        schedule = torch_profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
        with torch.profiler.profile(schedule=schedule, on_trace_ready=handle) as profiler:
            for _ in range(4):
                torch.ones(2).add(1)
                hooking.warnings_of(profiler.step)
    marks = sorted(recorder.marks_of(wire.PROFILING), key=lambda mark: mark.start)
    assert len(handled) == 1
    assert len(marks) == handled[0] + 1, "the handler's own calls are part of its mark"
    assert all(a.start < a.end <= b.start for a, b in itertools.pairwise(marks))


def test_what_a_window_of_ours_calls_is_not_the_users() -> None:
    names: dict[str, Any] = {"__name__": "gapless.payload.windows.stand_in"}
    exec("def window(make):\n    return make()\n", names)  # noqa: S102 - in a module of this name
    with hooking.install_hooks("profilers") as recorder:
        names["window"](MAKERS["torch.profiler"])
        assert not recorder.marks_of(wire.PROFILING)
        assert not hooking.hook_module("profilers").user_profiler()


def test_a_tool_that_observes_from_outside_leaves_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/nvidia/libToolsInjection64.so")
    with hooking.install_hooks("profilers") as recorder:
        assert hooking.hook_module("profilers").user_profiler()
    assert recorder.unobserved[0][0] == "windows"


def test_types_of_profilers_stay_what_they_are() -> None:
    classes = (torch.profiler.profile, autograd_profiler.profile, autograd_profiler.emit_nvtx)
    before = [dict(vars(kind)) for kind in classes]
    signatures = [inspect.signature(kind) for kind in classes]

    with hooking.install_hooks("profilers"):
        assert (torch.profiler.profile, autograd_profiler.profile) == classes[:2]
        assert [inspect.signature(kind) for kind in classes] == signatures
        assert pickle.loads(pickle.dumps(torch.profiler.profile)) is classes[0]  # noqa: S301

        class OwnProfiler(torch.profiler.profile):
            """A subclass, as Lightning has."""

        with OwnProfiler(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            torch.ones(2).add(1)
        assert isinstance(profiler, torch.profiler.profile)
    assert [dict(vars(kind)) for kind in classes] == before


def test_what_a_profiler_raises_is_raised_as_it_would_be() -> None:
    def make() -> None:
        torch.profiler.profile(activities=[], nonsense=1)  # pyright: ignore[reportCallIssue]

    plain = hooking.traceback_of(make)
    with hooking.install_hooks("profilers"):
        observed = hooking.traceback_of(make)
    assert plain
    assert observed == plain
