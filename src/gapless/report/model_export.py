"""An exported model on a terminal: what was caught, a table of ways, what was refused and why."""

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from rich.text import Text

from gapless.model.edit import Location
from gapless.model.model_export import (
    ExportFailure,
    ModelExport,
    ModelInput,
    ModelSubject,
    ModelWay,
    OutputDifference,
    WayCost,
)
from gapless.report.text.console import Pen
from gapless.report.text.numbers import count, size, span
from gapless.report.text.text import clean, pad
from gapless.report.text.wrap import fold

_QUIET: Final = "bright_black"
_BATCH_CELLS: Final = 11
_MAX_SPREAD: Final = 10.0  # of an interval's ends: beyond it the middle says nothing
_WAY_CELLS: Final = 14
_COLUMNS: Final = (("p50", 10), ("p99", 10), ("rows/s", 11), ("times eager", 24), ("calls", 8))
_MIN_WIDE: Final = 88  # cells, for all columns
_INDENT: Final = "  "


def export_lines(export: ModelExport, pen: Pen) -> Iterator[Text]:
    """Return the screen: the model, the files, the table, refusals, notes."""
    headline = clean(f"gapless export · {shlex.join(export.command)}")
    yield from fold(headline, pen.width, style="bold")
    if export.subject is not None:
        for sentence in _describe_subject(export.subject):
            yield from fold(clean(sentence), pen.width, style=_QUIET)
    yield Text()
    for way in export.ways:
        yield from _way_lines(way, export, pen)
    yield Text()
    yield from _table_lines(export, pen)
    yield from _aside_lines(export, pen)


def _describe_subject(subject: ModelSubject) -> Iterator[str]:
    name = subject.name.removeprefix("__main__.")
    precision = subject.dtype or "no format"
    if subject.autocast is not None:
        precision += f" with autocast to {subject.autocast}"
    site = f" ({_describe_place(subject.location)})" if subject.location is not None else ""
    yield (
        f"{name}{site}, {count(subject.parameters)} parameters, {precision}, on {subject.device}; "
        f"weights {subject.weights}; {count(subject.forwards)} forwards were seen"
    )
    yield f"inputs: {'; '.join(map(_describe_input, subject.inputs))}"
    if subject.batch is None:
        yield f"no dimension of the inputs is a batch: {subject.batch_lack}"
    if subject.was_training:
        yield "nothing was evaluated before it was caught: it was set to evaluate for the export"


def _describe_input(entry: ModelInput) -> str:
    """Describe an input; "*" stands at dimensions that may have another size."""
    if entry.dtype is None:
        return f"{entry.name} = {entry.value}"
    sizes = [
        f"{length}{'*' if axis in entry.free else ''}" for axis, length in enumerate(entry.shape)
    ]
    return f"{entry.name} {entry.dtype} {'×'.join(sizes) or 'one number'}"


def _describe_place(location: Location) -> str:
    return f"{PurePath(location.file).name}:{location.line}"


# ── Ways ────────────────────────────────────────────────────────────────────────────────────────


def _way_lines(way: ModelWay, export: ModelExport, pen: Pen) -> Iterator[Text]:
    """Say what became of one way: its files and parity, or why there is none."""
    if way.failure is not None:
        yield from _failure_lines(way.name, way.failure, pen)
        return
    if way.why is not None:
        yield from fold(clean(f"{way.name}: {way.why}"), pen.width, style=_QUIET)
        return
    parts: list[str] = []
    if way.files and export.folder is not None:
        files = ", ".join(f"{export.folder}/{name} ({size(bytes_)})" for name, bytes_ in way.files)
        parts.append(files)
    if way.made_s is not None and way.files:
        parts.append(f"made in {span(way.made_s * 1e9)}")
    if way.memory is not None:
        parts.append(f"takes {size(way.memory)}")
    if way.parity is not None:
        parts.append(_describe_parity(way.parity))
    if parts:
        is_off = way.parity is not None and not way.parity.is_within
        sentence = clean(f"{way.name}: {'; '.join(parts)}")
        yield from fold(sentence, pen.width, style="red" if is_off else "")


def _describe_parity(parity: OutputDifference) -> str:
    verdict = "same outputs" if parity.is_within else "OTHER OUTPUTS"
    if parity.share is None or parity.tolerance is None:
        return f"{verdict} ({parity.why or 'not comparable'})"
    detail = (
        f"worst {parity.output}, batch {parity.batch}: off by {parity.share:.1e} "
        f"of its largest value, {parity.tolerance:.0e} is tolerated of {parity.dtype}"
    )
    if not parity.is_within and parity.own_value is not None and parity.other_value is not None:
        site = ", ".join(map(str, parity.position))
        detail += f"; at [{site}] {parity.other_value:.6g} in place of {parity.own_value:.6g}"
    return f"{verdict} ({detail})"


def _failure_lines(name: str, failure: ExportFailure, pen: Pen) -> Iterator[Text]:
    """Say which line a format refuses, what stands there, and what helps."""
    subject = failure.construct or "an error of the exporter"
    site = ""
    if failure.location is not None:
        site = f" at {_describe_place(failure.location)}"
    yield from fold(clean(f"{name} refuses the model: {subject}{site}"), pen.width, style="red")
    if failure.source:
        yield Text(clean(f"{_INDENT}{_INDENT}{failure.source}"), style="bold")
    if failure.help:
        yield from fold(clean(f"{_INDENT}what helps: {failure.help}"), pen.width)
    yield from fold(clean(f"{_INDENT}{failure.error}"), pen.width, style=_QUIET)


# ── The table ───────────────────────────────────────────────────────────────────────────────────


def _table_lines(export: ModelExport, pen: Pen) -> Iterator[Text]:
    rows = [(way, cost) for way in export.ways for cost in way.costs if cost.p50_ns is not None]
    if not rows:
        return
    columns = _COLUMNS if pen.width >= _MIN_WIDE else (_COLUMNS[0], _COLUMNS[3])
    heads = "".join(pad(head, cells, right=True) for head, cells in columns)
    yield Text(f"{pad('batch', _BATCH_CELLS)}{pad('', _WAY_CELLS)}{heads}", style=_QUIET)
    for batch in dict.fromkeys(cost.batch for _, cost in rows):
        label = batch
        for way, cost in rows:
            if cost.batch != batch:
                continue
            cells = _cells(cost)
            figures = "".join(pad(cells[head], width, right=True) for head, width in columns)
            yield Text.assemble(
                (pad(label, _BATCH_CELLS), "bold"), f"{pad(way.name, _WAY_CELLS)}{figures}".rstrip()
            )
            label = ""


def _cells(cost: WayCost) -> dict[str, str]:
    """Return a row's figures by the heads of their columns; what is not known is empty."""
    speedup = cost.speedup
    times = ""
    if speedup is not None:
        doubt = "?" if speedup.low <= 1 <= speedup.high else ""
        low, mid, high = (_ratio(value) for value in (speedup.low, speedup.mid, speedup.high))
        is_steady = speedup.high <= _MAX_SPREAD * speedup.low
        times = f"{mid}×{doubt} [{low}–{high}]" if is_steady else "too unsteady to say"
    return {
        "p50": "" if cost.p50_ns is None else span(cost.p50_ns),
        "p99": "" if cost.p99_ns is None else span(cost.p99_ns),
        "rows/s": "" if cost.rows_per_s is None else f"{cost.rows_per_s:,.0f}",
        "times eager": times,
        "calls": f"{cost.calls:,}",
    }


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _aside_lines(export: ModelExport, pen: Pen) -> Iterator[Text]:
    """Say what was not timed, where all was measured, and what else is to be known."""
    names_by_reason: dict[str, list[str]] = {}
    for way in export.ways:
        for cost in way.costs:
            if cost.why is not None:
                names_by_reason.setdefault(cost.why, []).append(f"{way.name} at {cost.batch}")
    for why, names in names_by_reason.items():
        yield from fold(clean(f"not timed: {', '.join(names)}: {why}"), pen.width, style=_QUIET)
    if export.failed is not None:
        yield from fold(clean(f"ended early: {export.failed}"), pen.width, style="red")
    sentences = list(export.notes)
    if export.torch is not None:
        threads = "" if export.processor != "CPU" else f", {export.threads} threads"
        sentences.append(f"measured on: {export.processor}{threads}, torch {export.torch}")
    for sentence in sentences:
        yield from fold(clean(sentence), pen.width, style=_QUIET)
