"""The difference of two studies on a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from gapless.model.comparison import Change, Comparison, Matched, Side
from gapless.model.leaf import PRINTED
from gapless.report.columns import lay_out
from gapless.report.grids import Grid
from gapless.report.numbers import count, duration, unit_for
from gapless.report.pen import Pen
from gapless.report.text import clean
from gapless.report.wrap import fold

_ABSENT = "–"
_CHANGE_TITLES = ("A ms", "B ms", "B − A")
_MATCH_TITLES = ("A ms", "B ms", "B − A", "A calls", "B calls", "")


def screen(comparison: Comparison, pen: Pen, top: int) -> Iterator[Text]:
    """Give step times, causes, operators, kernels; the largest changes first."""
    a, b = comparison.a, comparison.b
    what = "a step" if comparison.per_step else "a capture"
    head = f"gapless · {what} of {duration(a.step_ns)} became {duration(b.step_ns)}{_ratio(a, b)}"
    yield from fold(head, pen.width, "bold")
    for letter, side in (("A", a), ("B", b)):
        yield from fold(f"  {letter}: {_side(side, per_step=comparison.per_step)}", pen.width)
    for note in comparison.notes:
        yield from fold(f"  {note}", pen.width)
    yield from _changes("where the difference lies", comparison.groups, pen, PRINTED)
    yield from _changes("by leaf", comparison.leaves[:top], pen, {})
    yield from _matches("operators, self host time", comparison.operators, pen, top)
    yield from _matches("kernels", comparison.kernels, pen, top)


def _ratio(a: Side, b: Side) -> str:
    if not a.step_ns or not b.step_ns:
        return ""
    if a.step_ns >= b.step_ns:
        return f": {a.step_ns / b.step_ns:.2f}× as fast"
    return f": {b.step_ns / a.step_ns:.2f}× as long"


def _side(side: Side, *, per_step: bool) -> str:
    paths = side.run.paths
    where = clean(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    steps = f" · {side.rows} rows" if per_step else ""
    return f"{where} · {clean(side.run.device or 'no device named')}{steps}"


def _changes(
    title: str, changes: Sequence[Change], pen: Pen, names: Mapping[str, str]
) -> Iterator[Text]:
    rows = [
        (names.get(one.name, one.name), _ms(one.a_ns), _ms(one.b_ns), _signed(one.delta_ns))
        for one in changes
    ]
    if names:
        a, b = sum(one.a_ns for one in changes), sum(one.b_ns for one in changes)
        rows.append(("sum", _ms(a), _ms(b), _signed(b - a)))
    yield Text("")
    yield from lay_out(title, Grid(("", *_CHANGE_TITLES), tuple(rows), (0, 2, 3, 1), 0), pen)


def _matches(title: str, matches: Sequence[Matched], pen: Pen, top: int) -> Iterator[Text]:
    changed = [one for one in matches if one.status != "same"]
    yield Text("")
    if not changed:
        yield Text(f"{title}: no change", "bold")
        return
    rows = [
        (
            f"{one.name} {one.detail}" if one.detail else one.name,
            _optional(one.a_ns),
            _optional(one.b_ns),
            _signed(one.delta_ns),
            _ABSENT if one.a_calls is None else count(one.a_calls),
            _ABSENT if one.b_calls is None else count(one.b_calls),
            one.status,
        )
        for one in changed[:top]
    ]
    laid = Grid(("", *_MATCH_TITLES), tuple(rows), (0, 3, 4, 1, 5, 6, 2), len(changed) - len(rows))
    yield from lay_out(title, laid, pen)
    if laid.more:
        yield Text(f"  {laid.more:,} more (--top {len(changed)})", "bright_black")


def _ms(ns: float) -> str:
    return f"{ns / unit_for(1e6).ns:,.3f}"


def _optional(ns: float | None) -> str:
    return _ABSENT if ns is None else _ms(ns)


def _signed(ns: float) -> str:
    return f"{'−' if ns < 0 else '+'}{_ms(abs(ns))}"
