"""What becomes of the parts of the state where a process forks, and how hooks are declared."""

import os
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gapless.payload import declare
from gapless.payload.process_state import ProcessState


class CountedPart:
    """A part that notes what is asked of it."""

    def __init__(self, name: str, moments: list[str]) -> None:
        self.name, self.moments = name, moments

    def begin(self) -> None:
        self.moments.append(f"{self.name} begins")

    def fork(self) -> None:
        self.moments.append(f"{self.name} forks")

    def before_fork(self) -> None:
        self.moments.append(f"{self.name} pauses")


@pytest.fixture
def moments() -> list[str]:
    return []


def test_parts_are_asked_in_their_order_and_before_a_fork_in_the_other(moments: list[str]) -> None:
    state = ProcessState()
    parts = [state.keep(CountedPart(name, moments)) for name in ("lower", "upper")]
    state.before_fork()
    state.fork()
    state.after_fork()
    assert moments == [
        *("upper pauses", "lower pauses"),
        *("lower forks", "upper forks", "lower begins", "upper begins"),
    ]
    assert state.parts == parts


def test_a_part_that_fails_keeps_no_other_from_beginning(moments: list[str]) -> None:
    def fail() -> None:
        raise RuntimeError("ours")

    state = ProcessState()
    state.notes.append(("hook", "of the parent"))
    state.keep(SimpleNamespace(begin=fail))
    state.keep(CountedPart("upper", moments))
    state.fork()
    assert moments == ["upper forks", "upper begins"]
    assert state.notes == [("begin of types", "RuntimeError('ours')")]


def test_forks_are_watched_once(moments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[dict[str, Any]] = []

    def register(**actions: Any) -> None:  # noqa: ANN401 - as that of os
        handlers.append(actions)

    monkeypatch.setattr(os, "register_at_fork", register)
    state = ProcessState()
    state.watch_forks()
    state.watch_forks()
    state.keep(CountedPart("late", moments))
    (handler,) = handlers
    handler["after_in_child"]()
    assert moments == ["late forks", "late begins"]


def test_hooks_wait_in_the_order_in_which_they_stand(moments: list[str]) -> None:
    module: Any = ModuleType("a_hook")
    code = """
from gapless.payload import declare

@declare.at_stop
def leave(): pass

@declare.at_seldom_edge
@declare.at_edge
def edge(*_): pass

@declare.hook("sys")
def watch(module): moments.append(module.__name__)
"""
    module.moments = moments
    exec(code, module.__dict__)  # noqa: S102
    registered: list[tuple[Any, ...]] = []

    def on_stop(action: object) -> None:
        registered.append(("stop", action))

    def on_edge(action: object, **options: bool) -> None:
        registered.append((action, options))

    declare.install(module, SimpleNamespace(on_stop=on_stop, on_edge=on_edge))
    assert registered == [
        ("stop", module.leave),
        (module.edge, {}),
        (module.edge, {"seldom": True}),
    ]
    assert moments == ["sys"]
