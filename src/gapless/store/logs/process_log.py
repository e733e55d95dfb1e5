"""What the JSON frames of one process hold: its identity, facts, stacks, windows, files.

A frame that is not understood is counted, never a failure: its writer may have been killed, or be
of another version.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gapless import wire
from gapless.model.recording import (
    ArmObservation,
    BatchIndices,
    BatchSamples,
    Fact,
    StackCount,
    Unobserved,
    Window,
)
from gapless.store.logs.fields import Object, integer, items, members, parse, text, texts

Bodies = Mapping[int, Sequence[memoryview]]
_Frames = tuple[tuple[str, int, str], ...]
_Stacks = dict[tuple[str, _Frames], Counter[str]]  # by thread and frames: looks, and time
_T = TypeVar("_T")
# The threads of stacks from before the process stepped or loaded, from before its first step had
# ended, if that took long, and from long after its last step
_TRAINING, _SETUP, _FIRST, _ENDING = "training", "setup", "first", "ending"
_SPARE_THREADS = (_SETUP, _ENDING)
_MIN_STEPS = 3  # of a training, that say what a step does: its first one is not needed for that
_LOOKS, _RAN, _OFF, _LATE = "(looks)", "(ran)", "(off)", "(late)"  # besides what it waited for
_AMOUNTS = (_LOOKS, _RAN, _OFF)
_REST_SUFFIX = " (rest)"  # ends the thread of the sum of stacks that were not kept


class ProcessLog(Struct, frozen=True):
    """What one process recorded about itself in JSON."""

    facts: tuple[Fact, ...]
    unobserved: tuple[
        Unobserved, ...
    ]  # what it could not observe, and frames that were not understood
    stacks: tuple[StackCount, ...]
    setup_stacks: tuple[StackCount, ...]
    rare_stacks: tuple[StackCount, ...]
    windows: tuple[Window, ...]
    counters: tuple[Object, ...]
    read: Mapping[str, int]
    written: tuple[str, ...]
    exported: tuple[str, ...]
    end: int | None
    end_kind: str | None
    trial: ArmObservation | None


class _StackReport(Struct, frozen=True):
    """What was sampled between two reports, and the number of the last step before the second."""

    step: int
    stacks: _Stacks

    def is_of(self, name: str) -> bool:
        """Return whether stacks of a thread are in it."""
        return any(thread.removesuffix(_REST_SUFFIX) == name for thread, _ in self.stacks)


def parse_process_log(bodies: Bodies) -> ProcessLog:
    """Return what the frames of a process hold, by kind."""
    reader = _Reader(bodies, Counter())
    files = _parse_files(reader)
    facts = {(fact.noun, fact.id): fact for fact in reader.parse_frames(wire.FACT, _parse_fact)}
    windows = {window.number: window for window in reader.parse_frames(wire.WINDOW, _parse_window)}
    counts: dict[tuple[str, str], int] = {}
    for unobserved in reader.parse_frames(wire.UNOBSERVED, parse_unobserved):
        counts[unobserved.what, unobserved.why] = max(
            unobserved.count, counts.get((unobserved.what, unobserved.why), 0)
        )
    amounts_by_key = _join_reports(list(reader.parse_frames(wire.STACKS, _parse_stacks)))
    stacks = [_stack_count(*stack, amounts) for stack, amounts in amounts_by_key.items()]
    ends = list(reader.parse_frames(wire.END, _parse_end))
    trials = list(reader.parse_frames(wire.TRIAL, parse_observation))
    counters = tuple(reader.parse_frames(wire.COUNTERS, lambda counters: counters))
    return ProcessLog(
        facts=tuple(facts.values()),
        unobserved=(
            *(Unobserved(subject, why, count) for (subject, why), count in counts.items()),
            *reader.count_unparsed(),
        ),
        stacks=tuple(
            stack
            for stack in stacks
            if stack.thread not in _SPARE_THREADS and not stack.thread.endswith(_REST_SUFFIX)
        ),
        setup_stacks=tuple(stack for stack in stacks if stack.thread in _SPARE_THREADS),
        rare_stacks=tuple(
            replace(stack, thread=stack.thread.removesuffix(_REST_SUFFIX))
            for stack in stacks
            if stack.thread.endswith(_REST_SUFFIX) and stack.count
        ),
        windows=tuple(windows.values()),
        counters=counters,
        read=files.read,
        written=tuple(files.written),
        exported=tuple(files.exported),
        end=ends[-1][0] if ends else None,
        end_kind=ends[-1][1] if ends else None,
        trial=trials[-1] if trials else None,
    )


class _Reader(Struct, frozen=True):
    bodies: Bodies
    unparsed: Counter[str]

    def parse_frames(
        self, kind: int, parse_document: Callable[[Object], _T | None]
    ) -> Iterator[_T]:
        """Return the understood frames of a kind, and count the others."""
        for body in self.bodies.get(kind, ()):
            document = parse(body)
            value = None if document is None else parse_document(document)
            if value is None:
                self.unparsed[wire.FRAMES[kind]] += 1
            else:
                yield value

    def count_unparsed(self) -> tuple[Unobserved, ...]:
        """Record how many frames were not understood."""
        return tuple(
            Unobserved(f"frames of kind {name}", "not understood", n)
            for name, n in self.unparsed.items()
        )


def parse_unobserved(document: Object) -> Unobserved | None:
    """Return what an UNSEEN frame holds."""
    subject, why, count = (
        text(document.get("what")),
        text(document.get("why")),
        document.get("count"),
    )
    return None if subject is None or why is None else Unobserved(subject, why, integer(count) or 1)


def _parse_fact(document: Object) -> Fact | None:
    noun, number = text(document.get("noun")), integer(document.get("id"))
    if noun is None or number is None:
        return None
    return Fact(
        noun,
        number,
        text(document.get("file")),
        integer(document.get("line")),
        text(document.get("function")),
        members(document.get("values")),
    )


def _parse_window(document: Object) -> Window | None:
    names = ("number", "start", "end", "first_step", "last_step")
    number, start, end, first_step, last_step = (integer(document.get(name)) for name in names)
    if number is None or start is None or end is None or first_step is None or last_step is None:
        return None
    return Window(
        number=number,
        path=text(document.get("path")),
        start=start,
        end=end,
        first_step=first_step,
        last_step=last_step,
        stacks=document.get("stacks") is True,
        stop_ns=integer(document.get("stop_ns")),
        save_ns=integer(document.get("save_ns")),
        discarded=text(document.get("discarded")),
        readings=tuple(map(_parse_readings, items(document.get("readings")))),
        detached=document.get("detached") is True,
    )


def _parse_readings(edge: object) -> tuple[tuple[int, int], ...]:
    """Return the pairs of readings of one edge of a window; none if one is strange."""
    pairs = [tuple(map(integer, items(reading))) for reading in items(edge)]
    full_pairs = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]  # noqa: PLR2004 - a pair
    known_pairs = [(low, high) for low, high in full_pairs if low is not None and high is not None]
    return tuple(known_pairs) if len(known_pairs) == len(pairs) else ()


def _parse_stacks(document: Object) -> _StackReport | None:
    """Return the amounts of each stack: samples, ns on a processor, and ns off it by cause."""
    thread = text(document.get("thread"))
    if thread is None:
        return None
    counts: dict[tuple[str, _Frames], Counter[str]] = {}
    for stack in items(document.get("stacks")):
        count, frames, ran_ns, blocked_ns, waits, late_ns = (*items(stack), *[None] * 6)[:6]
        looks = integer(count)
        amounts = counts.setdefault((thread, tuple(map(_parse_frame, items(frames)))), Counter())
        amounts[_LOOKS] += 1 if looks is None else looks
        amounts[_RAN] += integer(ran_ns) or 0
        amounts[_OFF] += integer(blocked_ns) or 0
        amounts[_LATE] += integer(late_ns) or 0
        amounts.update({kind: integer(ns) or 0 for kind, ns in members(waits).items()})
    rest_counts = tuple(map(integer, items(document.get("rest"))))
    if len(rest_counts) == len(_AMOUNTS):
        amounts = counts.setdefault((f"{thread}{_REST_SUFFIX}", ()), Counter())
        amounts.update(
            {kind: value or 0 for kind, value in zip(_AMOUNTS, rest_counts, strict=True)}
        )
    return _StackReport(integer(document.get("step")) or 0, counts)


def _join_reports(reports: Sequence[_StackReport]) -> dict[tuple[str, _Frames], Counter[str]]:
    """Sum what reports tell of each stack, by the thread that it turned out to belong to.

    A late step is the training's if steps went on after it. What went before a first step's end is
    set-up if more steps were seen; else that step may be the only one, and it is the training's.
    """
    amounts_by_key: dict[tuple[str, _Frames], Counter[str]] = {}
    is_setup = max((report.step for report in reports), default=0) >= _MIN_STEPS - 1
    last = max((at for at, report in enumerate(reports) if report.is_of(_TRAINING)), default=-1)
    for at, report in enumerate(reports):
        names = {
            _FIRST: _SETUP if is_setup else _TRAINING,
            _ENDING: _TRAINING if at < last else _ENDING,
        }
        for (thread, frames), amounts in report.stacks.items():
            name, suffix, _ = thread.partition(_REST_SUFFIX)
            key = f"{names.get(name, name)}{suffix}", frames
            amounts_by_key.setdefault(key, Counter()).update(amounts)
    return amounts_by_key


def _stack_count(thread: str, frames: _Frames, amounts: Counter[str]) -> StackCount:
    own_keys = {_LOOKS, _RAN, _OFF, _LATE}
    waits = tuple((kind, ns) for kind, ns in amounts.items() if kind not in own_keys)
    return StackCount(
        thread, frames, amounts[_LOOKS], amounts[_RAN], amounts[_OFF], waits, amounts[_LATE]
    )


def _parse_end(document: Object) -> tuple[int, str | None] | None:
    end_ns = integer(document.get("ns"))
    return None if end_ns is None else (end_ns, text(document.get("how")))


def _parse_frame(frame: object) -> tuple[str, int, str]:
    file, line, function = (*items(frame), None, None, None)[:3]
    return text(file) or "?", integer(line) or 0, text(function) or "?"


class _Files(Struct, frozen=True):
    """How often each path was opened; the paths written, and those that hold traces, in order."""

    read: Counter[str]
    written: dict[str, None]
    exported: dict[str, None]


def _parse_files(reader: _Reader) -> _Files:
    files = _Files(Counter(), {}, {})
    for document in reader.parse_frames(wire.FILES, lambda files: files):
        for path, count in members(document.get("read")).items():
            files.read[path] += integer(count) or 1
        written = dict.fromkeys(texts(document.get("written")))
        files.written.update(written)
        if document.get("kind") == "trace":
            files.exported.update(written)
    return files


def parse_observation(document: Object) -> ArmObservation:
    """Return what a TRIAL frame holds; what is not understood is left out."""
    return ArmObservation(
        losses=tuple(
            value
            for loss_text in texts(document.get("losses"))
            if (value := _loss(loss_text)) is not None
        ),
        scaled=document.get("scaled") is True,
        indices={
            int(loader): tuple(
                indices
                for batch in items(batches)
                if (indices := _parse_indices(batch)) is not None
            )
            for loader, batches in members(document.get("indices")).items()
            if loader.isdecimal()
        },
        samples={
            int(loader): tuple(
                indices
                for batch in items(batches)
                if (indices := _parse_samples(batch)) is not None
            )
            for loader, batches in members(document.get("samples")).items()
            if loader.isdecimal()
        },
        stopped=integer(document.get("stopped")),
    )


def _loss(value: str) -> float | None:
    try:
        return float.fromhex(value)
    except (ValueError, OverflowError):
        return None


def _parse_indices(batch: object) -> BatchIndices | None:
    epoch, checksum, count, distinct = (*items(batch), None, None, None, None)[:4]
    number, n_indices, digest = integer(epoch), integer(count), text(checksum)
    if number is None or n_indices is None or digest is None:
        return None
    return BatchIndices(number, digest, n_indices, integer(distinct))


def _parse_samples(batch: object) -> BatchSamples | None:
    epoch, samples = (*items(batch), None, None)[:2]
    number = integer(epoch)
    return None if number is None else BatchSamples(number, texts(samples))
