"""The difference of two studies on a terminal: of runs, what explains it comes first."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from rich.text import Text

from gapless.model.comparison import (
    CauseDelta,
    ChargeDelta,
    ComparedStudy,
    Comparison,
    FactDelta,
    OperationDelta,
)
from gapless.model.edit import Location
from gapless.model.leaf import PRINTED
from gapless.report.sections.columns import lay_out_grid
from gapless.report.sections.grids import Grid
from gapless.report.sections.trials import ratio_text
from gapless.report.text.console import Pen
from gapless.report.text.numbers import count, duration, unit_for
from gapless.report.text.text import clean, cut_middle
from gapless.report.text.wrap import fold

_ABSENT = "–"
_MAX_EXPLAINING: Final = 3  # settings that are named for one part of the step
_MAX_SENTENCES: Final = 3
_MAX_FACTS: Final = 6  # lines of them on the first screen
_CHANGE_TITLES = ("A ms", "B ms", "B − A")
_MATCH_TITLES = ("A ms", "B ms", "B − A", "A calls", "B calls", "")


def comparison_screen(
    comparison: Comparison, pen: Pen, top: int, *, full: bool = False
) -> Iterator[Text]:
    """Return step times, causes, operators, kernels; the largest changes first.

    Of two runs the first screen ends with the causes; ``full``: the tables as well.
    """
    a, b = comparison.a, comparison.b
    unit = "a step" if comparison.per_step else "a capture"
    head = f"gapless · {unit} of {duration(a.step_ns)} became {duration(b.step_ns)}"
    yield from fold(f"{head}{_ratio(comparison)}", pen.width, "bold")
    for note in comparison.notes:
        yield from fold(note, pen.width)
    if comparison.explained:
        yield from fold(_explain(comparison), pen.width)
    for letter, side in (("A", a), ("B", b)):
        yield from fold(f"  {letter}: {_side_text(side, per_step=comparison.per_step)}", pen.width)
    yield from _change_table("where the difference lies", comparison.groups, pen, PRINTED)
    yield from _fact_lines(comparison.facts, pen, top if full else _MAX_FACTS)
    yield from _cause_lines(comparison.causes, pen)
    is_of_runs = comparison.a.is_run and comparison.b.is_run
    if is_of_runs and not full:
        yield Text("")
        yield Text("more: --full  leaves of the account, operators, kernels", "bright_black")
        return
    yield from _change_table("by leaf", comparison.leaves[:top], pen, {})
    yield from _operation_table("operators, self host time", comparison.operators, pen, top)
    yield from _operation_table("kernels", comparison.kernels, pen, top)


def _explain(comparison: Comparison) -> str:
    """Return what moved the largest parts, in one sentence each."""
    sentences = list[str]()
    for group in comparison.groups:
        if group.name not in comparison.explained:
            continue
        facts = comparison.explained[group.name]
        why = ", ".join(map(_fact_text, facts[:_MAX_EXPLAINING]))
        n_more = len(facts) - _MAX_EXPLAINING
        why = f"{why} and {n_more} more" if n_more > 0 else why
        why = why or "no setting that changed explains it"
        more_or_less = "more" if group.delta_ns > 0 else "less"
        name = PRINTED.get(group.name, group.name)
        sentences.append(f"{duration(abs(group.delta_ns))} {more_or_less} {name}: {why}")
    return "; ".join(sentences[:_MAX_SENTENCES]) + "."


def _fact_text(fact: FactDelta) -> str:
    return clean(f"{fact.name} {fact.a or _ABSENT} → {fact.b or _ABSENT}")


def _fact_lines(facts: Sequence[FactDelta], pen: Pen, top: int) -> Iterator[Text]:
    if not facts:
        return
    yield Text("")
    yield Text("what was set otherwise", "bold")
    for fact in facts[:top]:
        location_words = "" if fact.location is None else f"  {_line_ref(fact.location)}"
        yield Text(
            cut_middle(f"  {fact.subject}: {_fact_text(fact)}{clean(location_words)}", pen.width)
        )
    if len(facts) > top:
        yield Text(f"  {len(facts) - top:,} more (--full)", "bright_black")


def _cause_lines(causes: Sequence[CauseDelta], pen: Pen) -> Iterator[Text]:
    if not causes:
        return
    yield Text("")
    yield Text("causes", "bold")
    for cause in causes:
        location_words = "" if cause.location is None else f" {_line_ref(cause.location)}"
        prices = " → ".join(
            _ABSENT if price is None else f"{price:.2f}×" for price in (cause.a, cause.b)
        )
        line = (
            f"  {cause.status:5} {cause.code} {cause.name}{clean(location_words)}  worth {prices}"
        )
        yield Text(cut_middle(line, pen.width))


def _line_ref(location: Location) -> str:
    return f"{PurePath(location.file).name}:{location.line}"


def _ratio(comparison: Comparison) -> str:
    a, b, speedup = comparison.a, comparison.b, comparison.speedup
    if speedup is not None:
        return f": B is {ratio_text(speedup)} as fast"
    if not a.step_ns or not b.step_ns:
        return ""
    if a.step_ns >= b.step_ns:
        return f": {a.step_ns / b.step_ns:.2f}× as fast"
    return f": {b.step_ns / a.step_ns:.2f}× as long"


def _side_text(side: ComparedStudy, *, per_step: bool) -> str:
    paths = side.run.paths
    source = clean(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    steps = f" · {side.rows} rows" if per_step else ""
    return f"{source} · {clean(side.run.device or 'no device named')}{steps}"


def _change_table(
    title: str, changes: Sequence[ChargeDelta], pen: Pen, names: Mapping[str, str]
) -> Iterator[Text]:
    rows = [
        (
            names.get(change.name, change.name),
            _ms(change.a_ns),
            _ms(change.b_ns),
            _signed_ms(change.delta_ns),
        )
        for change in changes
    ]
    if names:
        a, b = sum(change.a_ns for change in changes), sum(change.b_ns for change in changes)
        rows.append(("sum", _ms(a), _ms(b), _signed_ms(b - a)))
    yield Text("")
    yield from lay_out_grid(title, Grid(("", *_CHANGE_TITLES), tuple(rows), (0, 2, 3, 1), 0), pen)


def _operation_table(
    title: str, operations: Sequence[OperationDelta], pen: Pen, top: int
) -> Iterator[Text]:
    changed_operations = [operation for operation in operations if operation.status != "same"]
    yield Text("")
    if not changed_operations:
        yield Text(f"{title}: no change", "bold")
        return
    rows = [
        (
            f"{operation.name} {operation.detail}" if operation.detail else operation.name,
            _ms_or_dash(operation.a_ns),
            _ms_or_dash(operation.b_ns),
            _signed_ms(operation.delta_ns),
            _ABSENT if operation.a_calls is None else count(operation.a_calls),
            _ABSENT if operation.b_calls is None else count(operation.b_calls),
            operation.status,
        )
        for operation in changed_operations[:top]
    ]
    grid = Grid(
        ("", *_MATCH_TITLES),
        tuple(rows),
        (0, 3, 4, 1, 5, 6, 2),
        len(changed_operations) - len(rows),
    )
    yield from lay_out_grid(title, grid, pen)
    if grid.hidden_rows:
        yield Text(f"  {grid.hidden_rows:,} more (--top {len(changed_operations)})", "bright_black")


def _ms(ns: float) -> str:
    return f"{ns / unit_for(1e6).ns:,.3f}"


def _ms_or_dash(ns: float | None) -> str:
    return _ABSENT if ns is None else _ms(ns)


def _signed_ms(ns: float) -> str:
    return f"{'−' if ns < 0 else '+'}{_ms(abs(ns))}"
