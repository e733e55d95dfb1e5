"""Put hooks into this process, against a recorder that keeps all it is told, and out again."""

from __future__ import annotations

import contextlib
import importlib
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless import wire
from gapless.payload import imports, patching

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
    place: tuple[str, int, str] | None


class Recorder:
    """The recorder's functions, over lists."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.facts: list[Fact] = []
        self.written: list[tuple[int, dict[str, Any]]] = []
        self.missing: list[tuple[str, str]] = []
        self.actions: list[Callable[[int, int, int], None]] = []
        self.stops: list[Callable[[], None]] = []
        self.children: list[Callable[[], None]] = []
        self.firsts: list[Callable[[], None]] = []
        self.sites: list[tuple[str, int, str]] = []
        self.things: list[object] = []
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
        self, noun: str, thing: object, values: dict[str, Any], place: tuple[str, int, str] | None
    ) -> int:
        if not any(thing is one for one in self.things):
            self.things.append(thing)
        number = next(at for at, one in enumerate(self.things) if one is thing)
        self.facts.append(Fact(noun, number, values, place))
        return number

    def site(self, place: tuple[str, int, str]) -> int:
        if place not in self.sites:
            self.sites.append(place)
        return self.sites.index(place)

    def unseen(self, what: str, why: str) -> None:
        self.missing.append((what, why))

    def write(self, kind: int, value: dict[str, Any]) -> None:
        self.written.append((kind, value))

    def on_edge(self, action: Callable[[int, int, int], None], *, seldom: bool = False) -> None:
        assert isinstance(seldom, bool)
        self.actions.append(action)

    def on_stop(self, action: Callable[[], None]) -> None:
        self.stops.append(action)

    def on_child(self, action: Callable[[], None]) -> None:
        self.children.append(action)

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

    def of(self, kind: int) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == kind]

    def about(self, noun: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.noun == noun]

    def files(self) -> list[str]:
        found = [value["written"] for kind, value in self.written if kind == wire.FILES]
        return [path for paths in found for path in paths]


@contextlib.contextmanager
def installed(*names: str) -> Generator[Recorder]:
    """Have fresh hooks of these names in place."""
    recorder = Recorder()
    modules = [hook(name) for name in ("calls", "models", *names)]
    for module in dict.fromkeys(modules):
        setattr(importlib.reload(module), "recorder", recorder)  # noqa: B010 - a module's
    before = len(imports.failed)
    failures = len(patching.notes)
    try:
        for name in names:
            hook(name).install()
        yield recorder
    finally:
        for action in recorder.stops:
            action()
        patching.restore_all()
        imports.forget_all()
    assert imports.failed[before:] == []
    assert patching.notes[failures:] == []


def hook(name: str) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(f"gapless.payload.hooks.{name}")


def told(action: Callable[[], object]) -> list[str]:
    """Give the traceback that an action ends with, as the interpreter would print it."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return traceback.format_exception(error)
    return []


def warned(action: Callable[[], object]) -> list[tuple[str, int, str]]:
    """Give the file, line and text of what an action warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [(one.filename, one.lineno, str(one.message)) for one in caught]
