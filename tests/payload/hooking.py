"""Put hooks into this process, against a recorder that keeps all it is told, and out again."""

from __future__ import annotations

import contextlib
import importlib
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless import wire
from gapless.payload import declare, imports, patching
from gapless.payload.process_state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Mark(NamedTuple):
    """A mark, as a hook made it."""

    kind: int
    start: int
    end: int
    subject: int
    value: int
    flags: int


class Fact(NamedTuple):
    """A fact, as a hook made it."""

    noun: str
    id: int
    values: dict[str, Any]
    location: tuple[str, int, str] | None


class Recorder:
    """The recorder's functions, over lists."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.facts: list[Fact] = []
        self.written: list[tuple[int, dict[str, Any]]] = []
        self.unobserved: list[tuple[str, str]] = []
        self.actions: list[Callable[[int, int, int], None]] = []
        self.stops: list[Callable[[], None]] = []
        self.firsts: list[Callable[[], None]] = []
        self.sites: list[tuple[str, int, str]] = []
        self.entities: list[object] = []
        self.edges = 0

    def now(self) -> int:
        return time.monotonic_ns()

    def mark(  # noqa: PLR0917 - the recorder's form
        self,
        kind: int,
        start: int,
        end: int,
        subject: int = wire.NOBODY,
        value: int = -1,
        flags: int = 0,
    ) -> None:
        self.marks.append(Mark(kind, start, end, subject, value, flags))

    def fact(
        self,
        noun: str,
        entity: object,
        values: dict[str, Any],
        location: tuple[str, int, str] | None,
    ) -> int:
        if not any(entity is known_entity for known_entity in self.entities):
            self.entities.append(entity)
        number = next(
            index for index, known_entity in enumerate(self.entities) if known_entity is entity
        )
        self.facts.append(Fact(noun, number, values, location))
        return number

    def site(self, location: tuple[str, int, str]) -> int:
        if location not in self.sites:
            self.sites.append(location)
        return self.sites.index(location)

    def report_unobserved(self, topic: str, why: str) -> None:
        self.unobserved.append((topic, why))

    def write(self, kind: int, value: dict[str, Any]) -> None:
        self.written.append((kind, value))

    def on_edge(self, action: Callable[[int, int, int], None], *, seldom: bool = False) -> None:
        assert isinstance(seldom, bool)
        self.actions.append(action)

    def on_stop(self, action: Callable[[], None]) -> None:
        self.stops.append(action)

    def on_first(self, action: Callable[[], None]) -> None:
        self.firsts.append(action)

    def is_worker(self) -> bool:
        return False

    def edge(self, end: int | None = None) -> None:
        """Be at a step edge."""
        self.edges += 1
        now = self.now() if end is None else end
        for action in self.actions:
            action(self.edges, now, now)

    def marks_of(self, kind: int) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == kind]

    def facts_about(self, noun: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.noun == noun]

    def written_paths(self) -> list[str]:
        path_lists = [value["written"] for kind, value in self.written if kind == wire.FILES]
        return [path for paths in path_lists for path in paths]


@contextlib.contextmanager
def install_hooks(*names: str) -> Generator[Recorder]:
    """Have fresh hooks of these names in place."""
    recorder = Recorder()
    modules = [hook_module(name) for name in ("calls", "models", *names)]
    for module in dict.fromkeys(modules):
        setattr(importlib.reload(module), "recorder", recorder)  # noqa: B010 - a module's
    n_notes = len(STATE.notes)
    try:
        for name in names:
            declare.install(hook_module(name), recorder)
        yield recorder
    finally:
        for action in recorder.stops:
            action()
        patching.restore_all()
        imports.forget_all()
    assert STATE.notes[n_notes:] == []


def hook_module(name: str) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(f"gapless.payload.hooks.{name}")


def traceback_of(action: Callable[[], object]) -> list[str]:
    """Return the traceback that an action ends with, as the interpreter would print it."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return traceback.format_exception(error)
    return []


def warnings_of(action: Callable[[], object]) -> list[tuple[str, int, str]]:
    """Return the file, line and text of what an action warns of."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        action()
    return [(warning.filename, warning.lineno, str(warning.message)) for warning in caught_warnings]
