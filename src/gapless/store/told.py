"""What the JSON frames of one process tell: who it is, facts, stacks, windows, files.

A frame that is not understood is counted, never a failure: its writer may have been killed, or be
of another make.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gapless import wire
from gapless.model.recording import Fact, Observed, StackCount, Unseen, Window
from gapless.store.fields import Object, integer, items, members, parse, text, texts
from gapless.store.observed import observed

Bodies = Mapping[int, Sequence[memoryview]]
_Frames = tuple[tuple[str, int, str], ...]
_T = TypeVar("_T")
_LOOKS, _RAN, _OFF = "(looks)", "(ran)", "(off)"  # beside what a stack waited for


@dataclass(frozen=True)
class Told:
    """What one process told of itself in JSON."""

    facts: tuple[Fact, ...]
    unseen: tuple[Unseen, ...]  # what it could not observe, and frames that were not understood
    stacks: tuple[StackCount, ...]
    windows: tuple[Window, ...]
    counters: tuple[Object, ...]
    read: Mapping[str, int]
    written: tuple[str, ...]
    exported: tuple[str, ...]
    end: int | None
    how: str | None
    trial: Observed | None


def told(bodies: Bodies) -> Told:
    """Give what the frames of a process tell, by kind."""
    reader = _Reader(bodies, Counter())
    files = _files(reader)
    facts = {(fact.noun, fact.id): fact for fact in reader.each(wire.FACT, _fact)}
    windows = {window.number: window for window in reader.each(wire.WINDOW, _window)}
    counts: dict[tuple[str, str], int] = {}
    for one in reader.each(wire.UNSEEN, unseen_of):
        counts[one.what, one.why] = max(one.count, counts.get((one.what, one.why), 0))
    stacks: dict[tuple[str, _Frames], Counter[str]] = {}
    for some in reader.each(wire.STACKS, _stacks):
        for where, amounts in some.items():
            stacks.setdefault(where, Counter()).update(amounts)
    ends = list(reader.each(wire.END, _end))
    trials = list(reader.each(wire.TRIAL, observed))
    counters = tuple(reader.each(wire.COUNTERS, lambda counters: counters))
    return Told(
        facts=tuple(facts.values()),
        unseen=(
            *(Unseen(what, why, count) for (what, why), count in counts.items()),
            *reader.complaints(),
        ),
        stacks=tuple(_stack(*where, amounts) for where, amounts in stacks.items()),
        windows=tuple(windows.values()),
        counters=counters,
        read=files.read,
        written=tuple(files.written),
        exported=tuple(files.exported),
        end=ends[-1][0] if ends else None,
        how=ends[-1][1] if ends else None,
        trial=trials[-1] if trials else None,
    )


@dataclass(frozen=True)
class _Reader:
    bodies: Bodies
    strange: Counter[str]

    def each(self, kind: int, understand: Callable[[Object], _T | None]) -> Iterator[_T]:
        """Give what is understood of each frame of a kind, and count the others."""
        for body in self.bodies.get(kind, ()):
            found = parse(body)
            value = None if found is None else understand(found)
            if value is None:
                self.strange[wire.FRAMES[kind]] += 1
            else:
                yield value

    def complaints(self) -> tuple[Unseen, ...]:
        """Say how many frames were not understood."""
        return tuple(
            Unseen(f"frames of kind {name}", "not understood", n)
            for name, n in self.strange.items()
        )


def unseen_of(found: Object) -> Unseen | None:
    """Give what an UNSEEN frame tells."""
    what, why, count = text(found.get("what")), text(found.get("why")), found.get("count")
    return None if what is None or why is None else Unseen(what, why, integer(count) or 1)


def _fact(found: Object) -> Fact | None:
    noun, number = text(found.get("noun")), integer(found.get("id"))
    if noun is None or number is None:
        return None
    return Fact(
        noun,
        number,
        text(found.get("file")),
        integer(found.get("line")),
        text(found.get("function")),
        members(found.get("values")),
    )


def _window(found: Object) -> Window | None:
    needed = ("number", "start", "end", "first_step", "last_step")
    number, start, end, first, last = (integer(found.get(name)) for name in needed)
    if number is None or start is None or end is None or first is None or last is None:
        return None
    return Window(
        number=number,
        path=text(found.get("path")),
        start=start,
        end=end,
        first_step=first,
        last_step=last,
        stacks=found.get("stacks") is True,
        stop_ns=integer(found.get("stop_ns")),
        save_ns=integer(found.get("save_ns")),
        discarded=text(found.get("discarded")),
        readings=tuple(map(_readings, items(found.get("readings")))),
        detached=found.get("detached") is True,
    )


def _readings(edge: object) -> tuple[tuple[int, int], ...]:
    """Give the pairs of readings of one edge of a window; none if one is strange."""
    pairs = [tuple(map(integer, items(one))) for one in items(edge)]
    whole = [(one[0], one[1]) for one in pairs if len(one) == 2]  # noqa: PLR2004 - a pair
    sound = [(low, high) for low, high in whole if low is not None and high is not None]
    return tuple(sound) if len(sound) == len(pairs) else ()


def _stacks(found: Object) -> dict[tuple[str, _Frames], Counter[str]] | None:
    """Give the amounts of each stack: looks, ns on a processor, and ns off it by what for."""
    thread = text(found.get("thread"))
    if thread is None:
        return None
    counts: dict[tuple[str, _Frames], Counter[str]] = {}
    for one in items(found.get("stacks")):
        count, frames, ran, off, waited = (*items(one), None, None, None, None, None)[:5]
        looks = integer(count)
        amounts = counts.setdefault((thread, tuple(map(_place, items(frames)))), Counter())
        amounts[_LOOKS] += 1 if looks is None else looks
        amounts[_RAN] += integer(ran) or 0
        amounts[_OFF] += integer(off) or 0
        amounts.update({kind: integer(ns) or 0 for kind, ns in members(waited).items()})
    return counts


def _stack(thread: str, frames: _Frames, amounts: Counter[str]) -> StackCount:
    waited = tuple((kind, ns) for kind, ns in amounts.items() if kind not in {_LOOKS, _RAN, _OFF})
    return StackCount(thread, frames, amounts[_LOOKS], amounts[_RAN], amounts[_OFF], waited)


def _end(found: Object) -> tuple[int, str | None] | None:
    at = integer(found.get("ns"))
    return None if at is None else (at, text(found.get("how")))


def _place(place: object) -> tuple[str, int, str]:
    file, line, function = (*items(place), None, None, None)[:3]
    return text(file) or "?", integer(line) or 0, text(function) or "?"


@dataclass(frozen=True)
class _Files:
    """How often each path was opened; the paths written, and those that hold traces, in order."""

    read: Counter[str]
    written: dict[str, None]
    exported: dict[str, None]


def _files(reader: _Reader) -> _Files:
    files = _Files(Counter(), {}, {})
    for found in reader.each(wire.FILES, lambda files: files):
        for path, count in members(found.get("read")).items():
            files.read[path] += integer(count) or 1
        written = dict.fromkeys(texts(found.get("written")))
        files.written.update(written)
        if found.get("kind") == "trace":
            files.exported.update(written)
    return files
