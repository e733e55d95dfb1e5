"""Grow a real trace to any size, so that reading can be measured on what profilers really write.

``python -m benchmarks.make_big_trace BASE OUT --megabytes 1000 [--rich] [--rank 0 --world 1]``

*plain* keeps the bytes that Kineto wrote; *rich* writes the base's events in the layout of torch
2.13's writer (one key a line) first. Then the events are repeated; in each copy only numbers
change: times move on by the length of the base, and ids, step numbers and collective sequence
numbers by their range, so that nothing in two copies is joined. What a capture has once (names of
processes and threads, the span of the capture, its end) is written once. ``OUT`` may end in .gz.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from isal import igzip

Event = dict[str, Any]
_EVENT_END = b"\n  },\n"
_IDS = (
    b"id|correlation|External id|Ev Idx|Python id|Python parent id|Sequence number|Seq"
    b"|wait_on_cuda_event_record_corr_id"
)
_NUMBER = re.compile(rb'"ts": (\d+)|"(?:' + _IDS + rb')": (\d+)|ProfilerStep#(\d+)')
_ONCE = re.compile(rb'"ph": "M"|"cat": "Trace"|"Iteration Start: |"Record Window End"')
_LARGEST_ID = 1 << 31  # above it lie hashes and addresses, which are no running numbers
_KEYS = {  # in the order in which torch 2.13 writes them
    "X": ("ph", "cat", "name", "pid", "tid", "ts", "dur"),
    "M": ("ph", "name", "ts", "pid", "tid"),
    "i": ("ph", "cat", "s", "name", "pid", "tid", "ts"),
    "s": ("ph", "id", "pid", "tid", "ts", "cat", "name"),
    "f": ("ph", "id", "pid", "tid", "ts", "cat", "name"),
}


@dataclass(frozen=True)
class Base:
    """A trace in three parts: what precedes the events, the events, what follows them."""

    head: bytes
    events: list[bytes]
    tail: bytes


def read_text(path: Path) -> bytes:
    """Return the text of a plain or gzip-compressed file."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def split_events(text: bytes) -> Base:
    """Cut the text that Kineto wrote into its events, byte for byte."""
    start = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"\n  ]")
    body = text[start:end].strip(b" \n")
    events = [event + b"\n  }" for event in body.split(_EVENT_END)]
    events[-1] = events[-1].removesuffix(b"\n  }")
    return Base(text[:start] + b"\n  ", events, text[end:])


def format_us(value: object) -> str:
    """Write a time as Kineto does: microseconds with three decimals."""
    return f"{float(str(value)):.3f}"


def write_event(event: Event) -> bytes:
    """Write one event in the layout of torch 2.13's writer."""
    kind = str(event["ph"])
    lines = [
        f'"{key}": {format_us(event[key]) if key in ("ts", "dur") else json.dumps(event[key])}'
        for key in _KEYS[kind]
        if key in event
    ]
    if kind == "i":
        lines[0] += ",\n    "
        lines[:2] = [f"{lines[0]}\n    {lines[1]}"]
    text = ",\n    ".join(lines)
    args = cast("dict[str, object]", event.get("args") or {})
    pairs = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    if kind == "M":
        text += f',\n    "args": {{\n      {pairs}\n    }}'
    elif kind == "f":
        text += '\n    , "bp": "e"'
    else:
        text += "\n    "
        text += f',\n    "args": {{\n      {pairs}\n    }}' if pairs else ""
    return f"{{\n    {text}\n  }}".encode()


def rewrite_trace(text: bytes) -> Base:
    """Write all events of a trace anew, as torch 2.13 would."""
    document = cast("dict[str, Any]", json.loads(text))
    events = cast("list[Event]", document.pop("traceEvents"))
    for unwanted in ("traceName", "metadata"):  # the second: what a third party added
        document.pop(unwanted, None)
    entries = "".join(f'    "{key}": {json.dumps(value)},\n' for key, value in document.items())
    head = f'{{\n{entries}    "traceEvents": [\n    \n  '
    events_written = [write_event(event) for event in events if event.get("ph") in _KEYS]
    return Base(head.encode(), events_written, b'\n  ],"traceName": "trace.json" }')


def head_of_rank(head: bytes, rank: int, world: int) -> bytes:
    """Return the head with a ``distributedInfo`` of the given rank: some readers demand one."""
    info = f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}}},'
    head = re.sub(rb'"distributedInfo": \{.*?\},(?=\s*")', b"", head, count=1, flags=re.DOTALL)
    return re.sub(rb'"traceEvents"', info.encode() + rb'\n  "traceEvents"', head, count=1)


@dataclass(frozen=True)
class Pattern:
    """Text with its changing numbers taken out: ``literals`` around ``numbers`` of ``kinds``."""

    literals: list[bytes]
    numbers: list[int]
    kinds: list[int]  # 0 time, 1 id, 2 step

    def copy(self, shifts: tuple[int, int, int]) -> bytes:
        """Return the text with each number moved on by the shift of its kind."""
        pieces = [b""] * (2 * len(self.numbers) + 1)
        pieces[::2] = self.literals
        moved = zip(self.numbers, self.kinds, strict=True)
        pieces[1::2] = [b"%d" % (number + shifts[kind]) for number, kind in moved]
        return b"".join(pieces)


def find_pattern(text: bytes) -> Pattern:
    """Find the changing numbers of a text."""
    literals: list[bytes] = []
    numbers: list[int] = []
    kinds: list[int] = []
    literal_start = 0
    for match in _NUMBER.finditer(text):
        kind = (match.lastindex or 1) - 1
        number = int(match[kind + 1])
        if kind == 1 and number > _LARGEST_ID:
            continue
        literals.append(text[literal_start : match.start(kind + 1)])
        numbers.append(number)
        kinds.append(kind)
        literal_start = match.end(kind + 1)
    return Pattern([*literals, text[literal_start:]], numbers, kinds)


def shift_ranges(number_pattern: Pattern) -> tuple[int, int, int]:
    """Return how far each kind moves from one copy to the next: µs, ids, steps."""
    spans: list[int] = []
    for kind in range(3):
        values = [
            n
            for n, k in zip(number_pattern.numbers, number_pattern.kinds, strict=True)
            if k == kind
        ]
        low = min(values, default=0) if kind != 1 else 0
        spans.append(max(values, default=0) - low + 1)
    return spans[0] + 1000, spans[1], spans[2]


def with_duration(event: bytes, microseconds_more: int) -> bytes:
    """Return the event with a duration that much longer."""
    return re.sub(
        rb'("dur": )(\d+)', lambda m: m[1] + b"%d" % (int(m[2]) + microseconds_more), event, count=1
    )


def repeated_pattern(base: Base) -> Pattern:
    """Return the pattern of the events that are in each copy."""
    return find_pattern(b",\n  ".join(event for event in base.events if not _ONCE.search(event)))


def grow_trace(
    base: Base, size: int, shifts: tuple[int, int, int] | None = None
) -> Iterator[bytes]:
    """Return the big trace in pieces, of about ``size`` bytes in all.

    ``shifts``: how far each kind of number moves; ranks of one job must all move by the same.
    """
    once_events = [event for event in base.events if _ONCE.search(event)]
    repeated = repeated_pattern(base)
    length = len(repeated.copy((0, 0, 0)))
    copies = max(1, round((size - len(base.head) - len(base.tail)) / length))
    step = shifts or shift_ranges(repeated)
    last_shift = (copies - 1) * step[0]
    ends = [event for event in once_events if b'"Record Window End"' in event]
    starts = [
        with_duration(event, last_shift) if b'"Trace"' in event else event
        for event in once_events
        if event not in ends
    ]
    yield base.head + b",\n  ".join(starts)
    for number in range(copies):
        yield b",\n  " + repeated.copy((number * step[0], number * step[1], number * step[2]))
    for event in ends:
        yield b",\n  " + find_pattern(event).copy((last_shift, 0, 0))
    yield base.tail


@dataclass(frozen=True)
class Growth:
    """How a base grows: to what size, whether written anew, and of how many ranks it is one."""

    megabytes: float
    rich: bool = False
    world: int = 1


def make_traces(base: Path, outputs: list[tuple[Path, int]], growth: Growth) -> None:
    """Write the big trace to each path, as that rank."""
    text = read_text(base)
    parts = rewrite_trace(text) if growth.rich else split_events(text)
    for path, rank in outputs:
        head = head_of_rank(parts.head, rank, growth.world)
        pieces = grow_trace(Base(head, parts.events, parts.tail), int(growth.megabytes * 1e6))
        opener = igzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb")
        with cast("BinaryIO", opener) as file:
            file.writelines(pieces)


def main() -> None:
    """Make one big trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, required=True)
    parser.add_argument("--rich", action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    options = parser.parse_args()
    growth = Growth(options.megabytes, rich=options.rich, world=options.world)
    make_traces(options.base, [(options.out, options.rank)], growth)


if __name__ == "__main__":
    main()
