"""What ``gapless runs`` did, on the terminal or as JSON."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

from gapless.commands.runs_acts import (
    Deleted,
    Done,
    Listed,
    Packed,
    ProcessLine,
    RunLine,
    Shown,
    Unpacked,
)
from gapless.report.numbers import duration, size
from gapless.report.pen import Pen, pen_for
from gapless.report.text import clean, pad, shorten

SCHEMA: Final = 1
_HEADS: Final = ("id", "when", "status", "exit", "steps", "step", "size", "command")
_RIGHT: Final = {"exit", "steps", "step", "size"}
_GAP: Final = "  "
_UNKNOWN: Final = "–"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def write(done: Done, *, as_json: bool) -> None:
    """Write what was done to standard output."""
    if as_json:
        from gapless import __version__

        told = {"schema": SCHEMA, "gapless": __version__, **msgspec.to_builtins(done)}
        sys.stdout.write(json.dumps(told) + "\n")  # ASCII: nothing that a terminal acts on
        return
    pen = pen_for(sys.stdout)
    pen.write(map(Text, _lines(done, pen)))


def _lines(done: Done, pen: Pen) -> Iterator[str]:
    match done:
        case Listed():
            yield from _list(done, pen.width)
        case Shown():
            yield from _show(done)
        case Deleted():
            for name, number in done.deleted.items():
                yield f"deleted {clean(name)}: {size(number)}"
        case Packed():
            yield from _packed(done)
        case Unpacked():
            yield from (*_table([done.run], pen.width), f"unpacked to {clean(done.run.path)}")


def _list(done: Listed, width: int) -> Iterator[str]:
    if not done.runs:
        yield f"no runs in {clean(done.folder)}; gapless run COMMAND makes one"
        return
    yield from _table(done.runs, width)
    plural = "run" if len(done.runs) == 1 else "runs"
    yield f"{len(done.runs)} {plural}, {size(done.bytes)} in {clean(done.folder)}"


def _table(runs: Sequence[RunLine], width: int) -> Iterator[str]:
    """Give a head and a line for each run; the command gets what room is left."""
    rows = [_HEADS, *(_cells(run) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    room = max(width - sum(widths) - len(_GAP) * len(widths), len("command"))
    for row in rows:
        figures = (
            pad(cell, wide, right=head in _RIGHT)
            for head, cell, wide in zip(_HEADS[:-1], row[:-1], widths, strict=True)
        )
        yield _GAP.join((*figures, shorten(row[-1], room))).rstrip()


def _cells(run: RunLine) -> tuple[str, ...]:
    return (
        clean(run.id),
        _ago(run),
        run.status,
        _UNKNOWN if run.exit_code is None else str(run.exit_code),
        _UNKNOWN if run.steps is None else f"{run.steps:,}",
        _UNKNOWN if run.step_ns is None else duration(run.step_ns),
        size(run.bytes),
        clean(" ".join(run.command)) or _UNKNOWN,
    )


def _ago(run: RunLine) -> str:
    """Give how long ago a run began, in the largest unit of which there are two."""
    seconds = time.time() - run.started_unix_ns / 1e9
    name, unit = next((one for one in _UNITS if seconds >= 2 * one[1]), ("s", 1))
    return f"{max(0, seconds) / unit:.0f} {name} ago"


def _began(run: RunLine) -> str:
    """Give the time at which a run began, here."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_unix_ns / 1e9))
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return _UNKNOWN


def _show(done: Shown) -> Iterator[str]:
    run, found = done.run, done.manifest
    yield clean(run.path)
    yield f"  command   {clean(' '.join(run.command))}"
    yield f"  in        {clean(found.folder)} on {clean(found.host)}"
    yield f"  by        gapless {clean(found.gapless)}"
    wall = "" if run.wall_ns is None else f", took {duration(run.wall_ns)}"
    code = "" if run.exit_code is None else f" with exit code {run.exit_code}"
    yield f"  began     {_began(run)}{wall}; {run.status}{code}"
    step = "" if run.step_ns is None else f" of {duration(run.step_ns)} in the mean"
    yield f"  steps     {_UNKNOWN if run.steps is None else f'{run.steps:,}'}{step}"
    yield f"  size      {size(run.bytes)}"
    yield from (f"  process   {_process(one)}" for one in done.processes if one.role != "worker")
    for rank in dict.fromkeys(one.rank for one in done.processes if one.role == "worker"):
        workers = [one for one in done.processes if (one.role, one.rank) == ("worker", rank)]
        yield f"  workers   {_workers(workers, rank)}"
    if done.series:
        yield f"  sampled   {clean(', '.join(done.series))}"
    for unseen in done.unseen:
        times = f" ({unseen.count:,} times)" if unseen.count > 1 else ""
        yield f"  not seen  {clean(unseen.what)}: {clean(unseen.why)}{times}"


def _process(process: ProcessLine) -> str:
    counts = (
        _many(process.marks, "mark", "marks"),
        _many(process.batches, "batch", "batches"),
        _many(process.windows, "window", "windows"),
    )
    told = ", ".join(count for count in counts if not count.startswith("0 "))
    end = "" if process.ended else "; killed, or it goes on"
    return f"training{_of(process.rank)}, {process.pid or _UNKNOWN}: {told}{end}"


def _workers(workers: Sequence[ProcessLine], rank: int | None) -> str:
    batches = _many(sum(one.batches for one in workers), "batch", "batches")
    open_ended = sum(not one.ended for one in workers)
    end = f"; {open_ended:,} killed, or still there" if open_ended else ""
    return f"{_many(len(workers), 'process', 'processes')}{_of(rank)}: {batches}{end}"


def _of(rank: int | None) -> str:
    return "" if rank is None else f" of rank {rank}"


def _many(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _packed(done: Packed) -> Iterator[str]:
    for member in done.members:
        yield f"{size(member.bytes):>10}  {clean(member.name)}"
    for name in done.left_out:
        yield f"{'damaged':>10}  {clean(name)}: left out"
    yield f"{size(done.bytes)} in {clean(done.path)}; ~ stands for your home folder in it"
