"""What processes did that loaded PyTorch and never ended a step, as they write it themselves."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

_PATTERN: Final = "unstepped-*.json"
_LISTED: Final = 3  # processes, and lines of each
_NOTABLE: Final = 0.05  # of the looks: a line below is not named
_WITHIN: Final = 0.8  # of the looks: a function in which so many stood holds the loop
_FEWEST: Final = 20  # looks, below which nothing is said of where the time went
_BUSY: Final = 0.05  # of a processor: a process with less waits

_Place = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True)
class Unstepped:
    """One process that loaded PyTorch and in which nothing has ended a step; times in ns."""

    pid: int
    name: str  # its script
    loaded: int  # CLOCK_MONOTONIC
    at: int  # when it was last looked at
    ended: bool
    cpu_ns: int  # of all its threads, since it loaded PyTorch
    optimizers: int  # that were made
    loaders: int
    calls: int  # of modules
    looks: int
    stacks: tuple[tuple[int, tuple[_Place, ...]], ...]  # count, places, the innermost first

    @property
    def since(self) -> int:
        """Give when what is to be waited for began: its load of PyTorch, or its end."""
        return self.at if self.ended else self.loaded


def reports(spool: Path) -> tuple[Unstepped, ...]:
    """Read what the processes wrote, the busiest first; what cannot be read is left out."""
    read: list[Unstepped] = []
    for path in spool.glob(_PATTERN):
        with suppress(OSError, ValueError, KeyError, TypeError):
            read.append(_parse(json.loads(path.read_bytes())))
    return tuple(sorted(read, key=lambda report: (-report.cpu_ns, report.pid)))


def newest_load_s(spool: Path) -> float | None:
    """Give when PyTorch was last loaded where nothing steps, on the monotonic clock in seconds."""
    return max((report.since / 1e9 for report in reports(spool)), default=None)


def sentences(every: Sequence[Unstepped]) -> Iterator[tuple[str, str]]:
    """Give for each of the busiest processes its name and what was seen of it, then what to do."""
    for report in every[:_LISTED]:
        yield report.name, "; ".join((_life(report), *_where(report)))
    if len(every) > _LISTED:
        yield "more processes", f"{len(every) - _LISTED} that loaded PyTorch"
    loop = _loop(every[0]) if every else None
    if loop is not None:
        yield "to see its steps", f"call gapless.step() where a round ends, in or around {loop}"


def _life(report: Unstepped) -> str:
    seconds = (report.at - report.loaded) / 1e9
    busy = _processors(report)
    processors = f"{busy:.1f} processors busy" if busy > _BUSY else "idle"
    counts = {
        "optimizer made": report.optimizers,
        "DataLoader used": report.loaders,
        "call of modules": report.calls,
    }
    things = [_counted(number, words) for words, number in counts.items() if number]
    return f"with PyTorch for {seconds:.0f} s, {', '.join([processors, *things])}"


def _counted(number: int, words: str) -> str:
    noun, _, rest = words.partition(" ")
    return f"{number} {noun}{'' if number == 1 else 's'} {rest}"


def _processors(report: Unstepped) -> float:
    """Give how many processors it kept busy."""
    return report.cpu_ns / max(1, report.at - report.loaded)


def _where(report: Unstepped) -> Iterator[str]:
    """Say at which lines of the user's the main thread stood most often."""
    if report.looks < _FEWEST:
        return
    lines = Counter[_Place]()
    for count, stack in report.stacks:
        lines[stack[0]] += count
    named = [
        f"{PurePath(file).name}:{line} {function} {100 * count / report.looks:.0f} %"
        for (file, line, function), count in lines.most_common(_LISTED)
        if count >= _NOTABLE * report.looks
    ]
    if named:
        yield f"its main thread stood at {' · '.join(named)} ({report.looks} samples)"


def _loop(report: Unstepped) -> str | None:
    """Name the innermost function in which nearly all samples stood, with the lines they stood at.

    It holds the loop, if there is one: what it calls comes and goes.
    """
    if report.looks < _FEWEST or _processors(report) < _BUSY:
        return None
    depth, held = 0, [(count, stack[::-1]) for count, stack in report.stacks]
    function: tuple[str, str] | None = None
    lines: list[int] = []
    while True:
        below = Counter[tuple[str, str]]()
        for count, stack in held:
            if depth < len(stack):
                below[stack[depth][0], stack[depth][2]] += count
        if not below:
            break
        key, count = below.most_common(1)[0]
        if count < _WITHIN * report.looks:
            break
        function, depth = key, depth + 1
        held = [(n, st) for n, st in held if len(st) >= depth and _key(st[depth - 1]) == key]
        lines = [stack[depth - 1][1] for _, stack in held]
    if function is None:
        return None
    return f"{function[1]} ({PurePath(function[0]).name}:{_range(lines)})"


def _key(place: _Place) -> tuple[str, str]:
    return place[0], place[2]


def _range(lines: Sequence[int]) -> str:
    first, last = min(lines), max(lines)
    return f"{first}" if first == last else f"{first}–{last}"


def _parse(text: dict[str, Any]) -> Unstepped:
    """Read one report. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    argv = [str(word) for word in text["argv"]]
    script = PurePath(argv[0]).name if argv and argv[0] else "python"
    things = text["things"]
    stacks = (
        (int(count), tuple((str(file), int(line), str(name)) for file, line, name in places))
        for count, places in text["stacks"]
    )
    return Unstepped(
        pid=int(text["pid"]),
        name=f"process {int(text['pid'])} ({script})",
        loaded=int(text["loaded"]),
        at=int(text["at"]),
        ended=bool(text["last"]),
        cpu_ns=int(text["cpu_ns"]),
        optimizers=int(things["optimizer"]),
        loaders=int(things["loader"]),
        calls=int(text["calls"]),
        looks=int(text["looks"]),
        stacks=tuple(stacks),
    )
