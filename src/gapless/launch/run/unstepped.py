"""What processes did that loaded PyTorch and never ended a step, as they write it themselves."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final

from msgspec import Struct

_PATTERN: Final = "unstepped-*.json"
_MAX_LISTED: Final = 3  # processes, and lines of each
_MIN_LINE_SHARE: Final = 0.05  # of the looks: a line below is not named
_MIN_LOOP_SHARE: Final = 0.8  # of the looks: a function in which so many stood holds the loop
_MIN_LOOKS: Final = 20  # looks, below which nothing is said of where the time went
_MIN_BUSY: Final = 0.05  # of a processor: a process with less waits

_Frame = tuple[str, int, str]  # file, line, function


class UnsteppedProcess(Struct, frozen=True):
    """One process that loaded PyTorch and in which nothing has ended a step; times in ns."""

    pid: int
    name: str  # its script
    loaded_ns: int  # CLOCK_MONOTONIC
    last_look_ns: int  # when it was last looked at
    has_ended: bool
    cpu_ns: int  # of all its threads, since it loaded PyTorch
    optimizers: int  # that were made
    loaders: int
    calls: int  # of modules
    looks: int
    stacks: tuple[tuple[int, tuple[_Frame, ...]], ...]  # count, locations, the innermost first

    @property
    def waiting_since_ns(self) -> int:
        """Return when what is to be waited for began: its load of PyTorch, or its end."""
        return self.last_look_ns if self.has_ended else self.loaded_ns


def read_reports(spool: Path) -> tuple[UnsteppedProcess, ...]:
    """Read what the processes wrote, the busiest first; what cannot be read is left out."""
    reports: list[UnsteppedProcess] = []
    for path in spool.glob(_PATTERN):
        with suppress(OSError, ValueError, KeyError, TypeError):
            reports.append(_parse(json.loads(path.read_bytes())))
    return tuple(sorted(reports, key=lambda report: (-report.cpu_ns, report.pid)))


def newest_load_s(spool: Path) -> float | None:
    """Return when PyTorch was last loaded where nothing steps: monotonic seconds."""
    return max((report.waiting_since_ns / 1e9 for report in read_reports(spool)), default=None)


def is_any_silent(spool: Path) -> bool:
    """Return whether a process that loaded PyTorch, and in which nothing steps, still runs."""
    return any(not report.has_ended for report in read_reports(spool))


def describe_reports(reports: Sequence[UnsteppedProcess]) -> Iterator[tuple[str, str]]:
    """Yield of each of the busiest processes its name and what was seen of it, then what to do."""
    for report in reports[:_MAX_LISTED]:
        yield report.name, "; ".join((_describe_life(report), *_describe_lines(report)))
    if len(reports) > _MAX_LISTED:
        yield "more processes", f"{len(reports) - _MAX_LISTED} that loaded PyTorch"
    loop = _find_loop(reports[0]) if reports else None
    if loop is not None:
        advice = (
            f"call gapless.step() where a round ends, in or around {loop}; if that is set-up, "
            "gapless check --seconds 600 waits longer for the first step"
        )
        yield "to see its steps", advice


def _describe_life(report: UnsteppedProcess) -> str:
    seconds = (report.last_look_ns - report.loaded_ns) / 1e9
    busy = _processors(report)
    processors = f"{busy:.1f} processors busy" if busy > _MIN_BUSY else "idle"
    counts = {
        "optimizer made": report.optimizers,
        "DataLoader used": report.loaders,
        "call of modules": report.calls,
    }
    phrases = [_count_phrase(number, words) for words, number in counts.items() if number]
    return f"with PyTorch for {seconds:.0f} s, {', '.join([processors, *phrases])}"


def _count_phrase(number: int, words: str) -> str:
    noun, _, suffix = words.partition(" ")
    return f"{number} {noun}{'' if number == 1 else 's'} {suffix}"


def _processors(report: UnsteppedProcess) -> float:
    """Return how many processors it kept busy."""
    return report.cpu_ns / max(1, report.last_look_ns - report.loaded_ns)


def _describe_lines(report: UnsteppedProcess) -> Iterator[str]:
    """Describe at which of the user's lines the main thread stood most often."""
    if report.looks < _MIN_LOOKS:
        return
    lines = Counter[_Frame]()
    for count, stack in report.stacks:
        lines[stack[0]] += count
    busy_lines = [
        f"{PurePath(file).name}:{line} {function} {100 * count / report.looks:.0f} %"
        for (file, line, function), count in lines.most_common(_MAX_LISTED)
        if count >= _MIN_LINE_SHARE * report.looks
    ]
    if busy_lines:
        yield f"its main thread stood at {' · '.join(busy_lines)} ({report.looks} samples)"


def _find_loop(report: UnsteppedProcess) -> str | None:
    """Return the innermost function in which nearly all samples stood, and at which lines.

    It holds the loop, if there is one: what it calls comes and goes.
    """
    if report.looks < _MIN_LOOKS or _processors(report) < _MIN_BUSY:
        return None
    depth, stacks = 0, [(count, stack[::-1]) for count, stack in report.stacks]
    function: tuple[str, str] | None = None
    lines: list[int] = []
    while True:
        callee_counts = Counter[tuple[str, str]]()
        for count, stack in stacks:
            if depth < len(stack):
                callee_counts[stack[depth][0], stack[depth][2]] += count
        if not callee_counts:
            break
        key, count = callee_counts.most_common(1)[0]
        if count < _MIN_LOOP_SHARE * report.looks:
            break
        function, depth = key, depth + 1
        stacks = [(n, st) for n, st in stacks if len(st) >= depth and _key(st[depth - 1]) == key]
        lines = [stack[depth - 1][1] for _, stack in stacks]
    if function is None:
        return None
    return f"{function[1]} ({PurePath(function[0]).name}:{_format_range(lines)})"


def _key(frame: _Frame) -> tuple[str, str]:
    return frame[0], frame[2]


def _format_range(lines: Sequence[int]) -> str:
    low, high = min(lines), max(lines)
    return f"{low}" if low == high else f"{low}–{high}"


def _parse(text: dict[str, Any]) -> UnsteppedProcess:
    """Read one report. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    argv = [str(word) for word in text["argv"]]
    script = PurePath(argv[0]).name if argv and argv[0] else "python"
    object_counts = text["things"]
    stacks = (
        (int(count), tuple((str(file), int(line), str(name)) for file, line, name in frames))
        for count, frames in text["stacks"]
    )
    return UnsteppedProcess(
        pid=int(text["pid"]),
        name=f"process {int(text['pid'])} ({script})",
        loaded_ns=int(text["loaded"]),
        last_look_ns=int(text["at"]),
        has_ended=bool(text["last"]),
        cpu_ns=int(text["cpu_ns"]),
        optimizers=int(object_counts["optimizer"]),
        loaders=int(object_counts["loader"]),
        calls=int(text["calls"]),
        looks=int(text["looks"]),
        stacks=tuple(stacks),
    )
