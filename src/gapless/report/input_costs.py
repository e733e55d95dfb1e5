"""What an input costs, on a terminal: one table of stages and their other ways."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import PurePath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from gapless.model.estimate import Estimate
from gapless.model.input_costs import InputCosts, InputSubject, StageCost, StorageSpeed
from gapless.report.text.console import Pen
from gapless.report.text.numbers import count, percent, size, span
from gapless.report.text.text import clean, cut_end, pad
from gapless.report.text.wrap import fold

_STAGE_CELLS: Final = 10
_MAX_WAY_CELLS: Final = 22
_MIN_WIDE: Final = 100  # cells, for all columns
_MIN_INTERVALS: Final = 114  # likewise, with the intervals of ratios
_MIN_GAIN: Final = 1.02  # of a step: less is not worth a change
_NOT_ONE: Final = frozenset(
    {"sample", "shrink", "pin", "copy", "hand-over", "touch", "floats"}
)  # no part of making samples
_NAMES: Final = {"sample": "all of it", "rest": "the rest"}
_STATES: Final = {
    "ordered": "in the order of their names",
    "cold": "cold, in any order,",
    "warm": "warm",
}
_QUIET: Final = "bright_black"
_UNBATCHED: Final = "no batches: what it gives at once counts as a sample"


class _FigureColumn(Struct, frozen=True):
    """A column: its head, and whether figures are aligned to the right."""

    head: str
    cells: int


_TIMES: Final = _FigureColumn("times", 8)
_COLUMNS: Final = (
    _FigureColumn("ms/sample", 21),
    _FigureColumn("samples/s", 10),
    _TIMES,
    _FigureColumn("a step", 15),
    _FigureColumn("pixels off", 14),
)
_TIMES_CELLS: Final = 22  # with their interval
_NARROW: Final = (
    _FigureColumn("ms/sample", 10),
    _FigureColumn("times", 6),
    _FigureColumn("a step", 9),
)


def input_lines(costs: InputCosts, pen: Pen) -> Iterator[Text]:
    """Return the screen: what was measured, the table, the storage, what it comes to, notes."""
    yield from fold(_headline(costs), pen.width, style="bold")
    if costs.subject is not None:
        yield from fold(_describe_subject(costs, costs.subject), pen.width, style=_QUIET)
    yield Text()
    yield from _table_lines(costs, pen)
    yield Text()
    for sentence in _conclusions(costs):
        yield from fold(sentence, pen.width)
    for sentence in _asides(costs):
        yield from fold(clean(sentence), pen.width, style=_QUIET)


def _headline(costs: InputCosts) -> str:
    return clean(f"gapless data · {shlex.join(costs.command)}")


def _describe_subject(costs: InputCosts, subject: InputSubject) -> str:
    by_loader = ""
    if subject.location is not None:
        by_loader = (
            f" by the loader at {PurePath(subject.location.file).name}:{subject.location.line}"
        )
    total = "" if subject.length is None else f" (of {subject.length:,})"
    workers = {0: "no workers", 1: "1 worker"}.get(
        subject.num_workers, f"{subject.num_workers} workers"
    )
    batch = f"batches of {subject.batch_size}" if subject.batch_size else _UNBATCHED
    parts = f": {', '.join(subject.batch_parts)}" if subject.batch_parts else ""
    size_words = (
        "" if not subject.batch_bytes else f"; a batch is {size(subject.batch_bytes)}{parts}"
    )
    dataset = subject.dataset or "its data set"
    return clean(
        f"{costs.samples:,} samples{total} of {dataset}{by_loader}, {batch}, {workers}{size_words}"
    )


# ── The table ───────────────────────────────────────────────────────────────────────────────────


def _table_lines(costs: InputCosts, pen: Pen) -> Iterator[Text]:
    is_wide = pen.width >= _MIN_WIDE
    columns = _COLUMNS if is_wide else _NARROW
    if pen.width >= _MIN_INTERVALS:
        columns = tuple(
            replace(column, cells=_TIMES_CELLS) if column is _TIMES else column
            for column in columns
        )
    cells_of = partial(_cells, is_wide=is_wide, has_intervals=pen.width >= _MIN_INTERVALS)
    used = {
        column.head
        for cost in costs.costs
        for column, cell in zip(columns, cells_of(cost), strict=True)
        if cell
    }
    way_cells = min(
        _MAX_WAY_CELLS,
        2 + max((len(cost.way) for cost in costs.costs if cost.sample_ns is not None), default=0),
    )
    head = "".join(
        pad(column.head, column.cells, right=True) for column in columns if column.head in used
    )
    yield Text(" " * (_STAGE_CELLS + way_cells) + head, style=_QUIET)
    for stage, rows in groupby(costs.costs, key=_stage_of):
        label = _NAMES.get(stage, stage)
        for cost in rows:
            if cost.sample_ns is None and cost.step_ns is None:
                continue
            cells = zip(columns, cells_of(cost), strict=True)
            figures = "".join(
                pad(cell, column.cells, right=True) for column, cell in cells if column.head in used
            )
            way = pad(cut_end(clean(cost.way), way_cells - 1), way_cells)
            yield Text.assemble(
                (pad(label, _STAGE_CELLS), "bold"),
                (f"{way}{figures}".rstrip(), "" if cost.is_now else "cyan"),
            )
            label = ""
    yield from _lack_lines(costs, pen)


def _stage_of(cost: StageCost) -> str:
    return cost.stage


def _lack_lines(costs: InputCosts, pen: Pen) -> Iterator[Text]:
    """Say what was not measured, a line for each reason."""
    names_by_reason: dict[str, list[str]] = {}
    for cost in costs.costs:
        if cost.sample_ns is None and cost.why is not None:
            name = cost.stage if cost.is_now else f"{cost.stage} by {cost.way}"
            names_by_reason.setdefault(cost.why, []).append(name)
    for why, names in names_by_reason.items():
        yield from fold(clean(f"not measured: {', '.join(names)}: {why}"), pen.width, style=_QUIET)


def _cells(cost: StageCost, *, is_wide: bool, has_intervals: bool) -> tuple[str, ...]:
    """Return a row's figures; what is not known is empty."""
    sample_ns = cost.sample_ns
    time = (
        ""
        if sample_ns is None
        else f"{_ms(sample_ns.mid)}{_interval(sample_ns) if is_wide else ''}"
    )
    times = _times(cost.speedup, has_interval=has_intervals)
    if not is_wide:
        return time, times, "" if cost.step_ns is None else span(cost.step_ns.mid)
    per_s = "" if sample_ns is None or sample_ns.mid <= 0 else f"{1e9 / sample_ns.mid:,.0f}"
    return time, per_s, times, _step(cost), _pixels(cost)


def _times(speedup: Estimate | None, *, has_interval: bool) -> str:
    """Return how many times as fast; in doubt ("?") where the interval holds 1."""
    if speedup is None:
        return ""
    doubt = "?" if speedup.low <= 1 <= speedup.high else ""
    interval = f" [{speedup.low:.2f}–{speedup.high:.2f}]" if has_interval else ""
    return f"{speedup.mid:.2f}×{doubt}{interval}"


def _ms(ns: float) -> str:
    value = ns / 1e6
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"  # noqa: PLR2004


def _interval(each: Estimate) -> str:
    return "" if each.low == each.high else f" [{_ms(each.low)}–{_ms(each.high)}]"


def _step(cost: StageCost) -> str:
    if cost.step_ns is None or cost.step_speedup is None:
        return ""
    return f"{span(cost.step_ns.mid)} {cost.step_speedup.mid:.2f}×"


def _pixels(cost: StageCost) -> str:
    if cost.pixels is None:
        return ""
    if not cost.pixels.largest:
        return "none"
    return f"≤ {cost.pixels.largest:.3g}, ø {cost.pixels.mean:.2g}"


# ── Below it ────────────────────────────────────────────────────────────────────────────────────


def _conclusions(costs: InputCosts) -> Iterator[str]:
    """Say what one process makes of all stages, and which stage takes most of it."""
    parts = [
        (cost.sample_ns.mid, cost.stage)
        for cost in costs.costs
        if cost.is_now and cost.sample_ns is not None and cost.stage not in _NOT_ONE
    ]
    sum_ns = sum(ns for ns, _ in parts)
    sample, collate = costs.find("sample"), costs.find("collate")
    wholes = [cost.sample_ns.mid for cost in (sample, collate) if cost and cost.sample_ns]
    if sum_ns > 0 and sample is not None:
        most, stage = max(parts, key=_figure_of)
        name = {"rest": "the rest of making a sample"}.get(stage, stage)
        yield (
            f"one process makes {1e9 / sum(wholes):,.0f} samples/s ({_ms(sum(wholes))} ms each); "
            f"{percent(most / sum_ns)} of that is {name}"
        )
    if costs.storage:
        yield _describe_storage(costs.storage, costs.files)
    if costs.run_step_ns is not None:
        yield _describe_gain(costs, costs.run_step_ns)


def _describe_gain(costs: InputCosts, step_ns: float) -> str:
    """Describe the way by which most is to be gained, as far as steps are foretold."""
    now = f"a step of run {costs.run} takes {span(step_ns)} now"
    foretold = [
        (cost.step_speedup.mid, cost) for cost in costs.costs if cost.step_speedup is not None
    ]
    if not foretold:
        return now
    _, best = max(foretold, key=_figure_of)
    speedup = best.step_speedup
    if speedup is None or speedup.mid < _MIN_GAIN:
        return f"{now}, and no other way here would make it 2 % faster"
    interval = f"{speedup.mid:.2f}× [{speedup.low:.2f} … {speedup.high:.2f}]"
    most = f"{now}; most would be gained by {best.way} ({best.stage}): {interval}"
    fixes = {
        cost.fix: cost.is_risky
        for gain, cost in foretold
        if cost.fix is not None and gain >= _MIN_GAIN
    }
    risky = " --risky" if any(fixes.values()) else ""
    return f"{most}; to prove: gapless try --fix {' '.join(fixes)}{risky}" if fixes else most


def _figure_of(part: tuple[float, object]) -> float:
    return part[0]


def _describe_storage(speeds: Sequence[StorageSpeed], files: int) -> str:
    """Describe how fast the storage gives the same files, whoever reads them."""
    words = [
        _describe_speeds(state, group)
        for state, rows in groupby(speeds, key=_state_of)
        if (group := [speed for speed in rows if speed.bytes_per_s is not None])
    ]
    reasons = dict.fromkeys(speed.why for speed in speeds if speed.why is not None)
    lacks = [f"not measured: {why}" for why in reasons]
    return clean(f"the storage, {count(files)} of its files: {'; '.join([*words, *lacks])}")


def _state_of(speed: StorageSpeed) -> str:
    return speed.state


def _describe_speeds(state: str, speeds: Sequence[StorageSpeed]) -> str:
    """Describe one way to read, by the number of readers: bytes and files a second."""
    readers = ", ".join(str(speed.readers) for speed in speeds)
    rates = ", ".join(f"{(speed.bytes_per_s or 0.0) / 1e6:,.0f}" for speed in speeds)
    files = ", ".join(f"{speed.files_per_s:,.0f}" for speed in speeds if speed.files_per_s)
    reader_words = f" by {readers} readers" if len(speeds) > 1 else ""
    return f"{_STATES[state]}{reader_words} {rates} MB/s ({files} files/s)"


def _asides(costs: InputCosts) -> Iterator[str]:
    if costs.failed is not None:
        yield f"ended early: {costs.failed}"
    if costs.step_note is not None:
        yield f"no step is foretold: {costs.step_note}"
    yield from costs.notes
