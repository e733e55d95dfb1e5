"""What ``gapless runs`` did, on the terminal or as JSON."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

from gapless.commands.runs_actions import (
    ActResult,
    DeleteResult,
    ListResult,
    PackResult,
    ProcessLine,
    RunLine,
    ShowResult,
    UnpackResult,
)
from gapless.report.text.console import Pen, pen_for
from gapless.report.text.numbers import duration, size
from gapless.report.text.text import clean, cut_middle, pad

SCHEMA: Final = 1
_HEADS: Final = ("id", "when", "status", "exit", "steps", "step", "size", "command")
_RIGHT_ALIGNED: Final = {"exit", "steps", "step", "size"}
_GAP: Final = "  "
_UNKNOWN: Final = "–"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def write(result: ActResult, *, as_json: bool) -> None:
    """Write the result of an action to standard output."""
    if as_json:
        from gapless import __version__

        document = {"schema": SCHEMA, "gapless": __version__, **msgspec.to_builtins(result)}
        sys.stdout.write(json.dumps(document) + "\n")  # ASCII: nothing that a terminal acts on
        return
    pen = pen_for(sys.stdout)
    pen.write(map(Text, _lines(result, pen)))


def _lines(result: ActResult, pen: Pen) -> Iterator[str]:
    match result:
        case ListResult():
            yield from _list_lines(result, pen.width)
        case ShowResult():
            yield from _show_lines(result)
        case DeleteResult():
            for name, number in result.deleted.items():
                yield f"deleted {clean(name)}: {size(number)}"
        case PackResult():
            yield from _pack_lines(result)
        case UnpackResult():
            yield from (*_table([result.run], pen.width), f"unpacked to {clean(result.run.path)}")


def _list_lines(result: ListResult, width: int) -> Iterator[str]:
    if not result.runs:
        yield f"no runs in {clean(result.folder)}; gapless run COMMAND makes one"
        return
    yield from _table(result.runs, width)
    plural = "run" if len(result.runs) == 1 else "runs"
    yield f"{len(result.runs)} {plural}, {size(result.bytes)} in {clean(result.folder)}"


def _table(runs: Sequence[RunLine], width: int) -> Iterator[str]:
    """Return a header and a line for each run; the command gets the remaining room."""
    rows = [_HEADS, *(_cells(run) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    room = max(width - sum(widths) - len(_GAP) * len(widths), len("command"))
    for row in rows:
        figures = (
            pad(cell, cell_width, right=head in _RIGHT_ALIGNED)
            for head, cell, cell_width in zip(_HEADS[:-1], row[:-1], widths, strict=True)
        )
        yield _GAP.join((*figures, cut_middle(row[-1], room))).rstrip()


def _cells(run: RunLine) -> tuple[str, ...]:
    return (
        clean(run.id),
        _age_text(run),
        run.status,
        _UNKNOWN if run.exit_code is None else str(run.exit_code),
        _UNKNOWN if run.steps is None else f"{run.steps:,}",
        _UNKNOWN if run.step_ns is None else duration(run.step_ns),
        size(run.bytes),
        clean(" ".join(run.command)) or _UNKNOWN,
    )


def _age_text(run: RunLine) -> str:
    """Return how long ago a run began, in the largest unit with at least two."""
    if not run.started_unix_ns:  # its run.json is lost
        return _UNKNOWN
    seconds = time.time() - run.started_unix_ns / 1e9
    name, unit = next(
        (name_and_unit for name_and_unit in _UNITS if seconds >= 2 * name_and_unit[1]), ("s", 1)
    )
    return f"{max(0, seconds) / unit:.0f} {name} ago"


def _start_time(run: RunLine) -> str:
    """Return the local time at which a run began."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_unix_ns / 1e9))
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return _UNKNOWN


def _show_lines(result: ShowResult) -> Iterator[str]:
    run, manifest = result.run, result.manifest
    yield clean(run.path)
    yield f"  command   {clean(' '.join(run.command))}"
    yield f"  in        {clean(manifest.folder)} on {clean(manifest.host)}"
    yield f"  by        gapless {clean(manifest.gapless)}"
    wall = "" if run.wall_ns is None else f", took {duration(run.wall_ns)}"
    code = "" if run.exit_code is None else f" with exit code {run.exit_code}"
    yield f"  began     {_start_time(run)}{wall}; {run.status}{code}"
    step = "" if run.step_ns is None else f" of {duration(run.step_ns)} in the mean"
    yield f"  steps     {_UNKNOWN if run.steps is None else f'{run.steps:,}'}{step}"
    yield f"  size      {size(run.bytes)}"
    yield from (
        f"  process   {_process_text(process)}"
        for process in result.processes
        if process.role != "worker"
    )
    for rank in dict.fromkeys(
        process.rank for process in result.processes if process.role == "worker"
    ):
        workers = [
            process
            for process in result.processes
            if (process.role, process.rank) == ("worker", rank)
        ]
        yield f"  workers   {_workers_text(workers, rank)}"
    if result.series:
        yield f"  sampled   {clean(', '.join(result.series))}"
    for unobserved in result.unseen:
        times = f" ({unobserved.count:,} times)" if unobserved.count > 1 else ""
        yield f"  not seen  {clean(unobserved.what)}: {clean(unobserved.why)}{times}"


def _process_text(process: ProcessLine) -> str:
    counts_and_nouns = (
        _count_noun(process.marks, "mark", "marks"),
        _count_noun(process.batches, "batch", "batches"),
        _count_noun(process.windows, "window", "windows"),
    )
    counts_text = ", ".join(count for count in counts_and_nouns if not count.startswith("0 "))
    end = "" if process.ended else "; killed, or it goes on"
    return f"training{_rank_suffix(process.rank)}, {process.pid or _UNKNOWN}: {counts_text}{end}"


def _workers_text(workers: Sequence[ProcessLine], rank: int | None) -> str:
    batches = _count_noun(sum(worker.batches for worker in workers), "batch", "batches")
    n_unfinished = sum(not worker.ended for worker in workers)
    end = f"; {n_unfinished:,} killed, or still there" if n_unfinished else ""
    return (
        f"{_count_noun(len(workers), 'process', 'processes')}{_rank_suffix(rank)}: {batches}{end}"
    )


def _rank_suffix(rank: int | None) -> str:
    return "" if rank is None else f" of rank {rank}"


def _count_noun(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _pack_lines(result: PackResult) -> Iterator[str]:
    for member in result.members:
        yield f"{size(member.bytes):>10}  {clean(member.name)}"
    for name in result.left_out:
        yield f"{'damaged':>10}  {clean(name)}: left out"
    yield f"{size(result.bytes)} in {clean(result.path)}; ~ stands for your home folder in it"
