"""The lines about a run: what it is, why its steps take as long, its pace, account, ranks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from gapless.live.view import PaceView, RankView, RunView
from gapless.model.account import Account
from gapless.model.leaf import GROUPS
from gapless.report.sections.account import account_sheet
from gapless.report.sections.account_screen import STYLES
from gapless.report.text.console import Pen, bar, spark
from gapless.report.text.numbers import count, duration, percent, span
from gapless.report.text.text import clean, cut_end, pad
from gapless.report.text.wrap import fold

LABEL_CELLS: Final = 8
DIM: Final = "bright_black"
_BAR_CELLS: Final = 24
_MIN_BAR_CELLS: Final = 6
_SPARK_CELLS: Final = 40
_MAX_RANKS: Final = 16  # that have a line each
_STATUS_STYLES: Final = {"running": "green", "failed": "red", "killed": "red", "gone": "red"}
_MIN_BEHIND_NS: Final = 10 * 10**9  # records that are older are said to be
Histories = Mapping[str, Sequence[float | None]]  # latest values by name, the newest last


def run_lines(run: RunView, pen: Pen, histories: Histories) -> Iterator[Text]:
    """Return the lines about a run."""
    yield from head_lines(run, pen)
    if run.cause is not None:
        yield from label_lines("now", fold(clean(run.cause), pen.width - LABEL_CELLS, "bold"))
    elif run.account is None and run.status == "running" and not run.notes:
        yield from label_lines("now", [Text("studying the run so far …", DIM)])
    yield from pace_lines(run, pen, histories)
    yield from account_lines(run, pen)
    if len(run.ranks) > 1:
        yield from rank_lines(run.ranks)


def label_lines(label: str, lines: Sequence[Text]) -> Iterator[Text]:
    """Return lines with a label before the first."""
    for index, line in enumerate(lines):
        yield Text.assemble((pad(label if index == 0 else "", LABEL_CELLS), "bold"), line)


def head_lines(run: RunView, pen: Pen) -> Iterator[Text]:
    """Return what runs, for how long, how far it is, and what is to be said of it."""
    line = Text.assemble(
        ("gapless watch", "bold"),
        f" · {clean(run.id)} · ",
        (run.status, _STATUS_STYLES.get(run.status, "")),
    )
    if run.exit_code is not None:
        is_signal = run.exit_code < 0
        line.append(f" by signal {-run.exit_code}" if is_signal else f", exit code {run.exit_code}")
    if run.elapsed_ns is not None:
        verb = "for" if run.status == "running" else "after"
        line.append(f" {verb} {span(run.elapsed_ns)}")
    if run.steps is not None:
        line.append(f" · {run.steps:,} steps")
    if run.behind_ns is not None and run.behind_ns > _MIN_BEHIND_NS:
        line.append(f" · last record {span(run.behind_ns)} ago")
    yield from line.wrap(pen.console, pen.width)
    yield Text(cut_end(clean(" ".join(run.command)), pen.width), DIM)
    if run.status not in {"running", "gone"}:
        yield Text("the run is over: this is how it ended", "yellow")
    for note in run.notes:
        yield from fold(clean(note), pen.width, "yellow")


def pace_lines(run: RunView, pen: Pen, histories: Histories) -> Iterator[Text]:
    """Return step time and throughput: of the latest steps, and of the run so far."""
    parts = [text for text in (_pace(run.recent, "now"), _pace(run.whole, "so far")) if text]
    if not parts:
        return
    first_line, *more_lines = fold(" · ".join(parts), pen.width - LABEL_CELLS)
    points = histories.get("step", ())
    room = pen.width - LABEL_CELLS - len(first_line) - 2
    values = [point for point in points if point is not None]
    if len(values) > 1 and room >= _MIN_BAR_CELLS:
        drawing = spark(points, max(values), min(room, _SPARK_CELLS), pen.signs)
        first_line.append(f"  {drawing}", "green")
    yield from label_lines("pace", [first_line, *more_lines])


def _pace(pace: PaceView | None, when: str) -> str:
    if pace is None:
        return ""
    text = f"{when} {duration(pace.mean_ns)} a step"
    if when == "now":
        text += f" ({duration(pace.p10_ns)} to {duration(pace.p90_ns)})"
    if pace.samples_per_s is not None:
        rate = pace.samples_per_s
        text += f", {count(round(rate) if rate >= 10 else round(rate, 2))} samples/s"  # noqa: PLR2004
    return text


def account_lines(run: RunView, pen: Pen) -> Iterator[Text]:
    """Return where a step goes: of the latest steps, beside it the run so far."""
    account = run.recent_account or run.account
    if account is None:
        return
    sheet = account_sheet(account)
    name_width = max(len(line.name) for line in sheet.lines)
    so_far = _shares(run.account) if run.recent_account is not None else {}
    room = pen.width - name_width - 24 - (12 if so_far else 0)
    bar_width = min(_BAR_CELLS, room) if room >= _MIN_BAR_CELLS else 0
    yield _account_title(run, name_width, bar_width, has_both=bool(so_far))
    for line in sheet.lines:
        figure = f"{sheet.unit.text(line.digits):>8} {sheet.unit.name} {line.percent:>5} %"
        text = Text(f"  {pad(line.name, name_width)} {figure}")
        if bar_width:
            drawing = bar(line.share, bar_width, pen.signs) if line.digits else ""
            text.append("  ")
            text.append(pad(drawing, bar_width), STYLES[line.group])
        if so_far:
            text.append(f"  {percent(so_far.get(line.group, 0.0)):>8}", DIM)
        yield text
        if line.parts and line.share >= 0.02:  # noqa: PLR2004 - of less the parts say nothing
            parts = " · ".join(
                f"{part.name} {sheet.unit.text(part.digits)}" for part in line.parts if part.digits
            )
            yield Text(cut_end(f"     {parts}", pen.width), DIM)


def _account_title(run: RunView, name_width: int, bar_width: int, *, has_both: bool) -> Text:
    steps = 0 if run.recent is None else run.recent.steps
    if not has_both:
        title = Text(
            "where a step went" if run.recent_account is None else "where a step goes", "bold"
        )
        account = run.account if run.recent_account is None else run.recent_account
        if account is not None and account.steps:
            title.append(f"  ({account.steps:,} steps)", f"not bold {DIM}")
        return title
    first = f"where a step goes  now: {steps:,} steps"
    width = name_width + 3 + 19 + (bar_width + 2 if bar_width else 0)
    title = Text(pad(first, width), "bold")
    title.append(f"  {'so far':>8}", "bold")
    return title


def _shares(account: Account | None) -> dict[str, float]:
    if account is None or not account.wall_ns:
        return {}
    names = [*GROUPS, *(name for name in account.groups if name not in GROUPS)]
    return {name: account.groups.get(name, 0) / account.wall_ns for name in names}


def rank_lines(ranks: Sequence[RankView]) -> Iterator[Text]:
    """Return a line for each rank, the slowest first where there are too many."""
    shown_ranks = list(ranks)
    if len(shown_ranks) > _MAX_RANKS:
        shown_ranks.sort(key=lambda rank: -(rank.median_ns or 0))
    head = f"{'rank':>4}  {'step':>9}  {'a step':>9}  {'for data':>8}  main thread"
    lines = [Text(head, DIM)]
    lines += [Text(_rank_text(rank)) for rank in shown_ranks[:_MAX_RANKS]]
    if len(ranks) > _MAX_RANKS:
        lines.append(Text(f"{len(ranks) - _MAX_RANKS} more, whose steps are shorter", DIM))
    yield from label_lines("ranks", lines)


def _rank_text(rank: RankView) -> str:
    number = rank.pid if rank.rank is None else rank.rank
    step = "–" if rank.steps is None else f"{rank.steps:,}"
    median = "–" if rank.median_ns is None else duration(rank.median_ns)
    wait = "–" if rank.wait_share is None else percent(rank.wait_share)
    return f"{number:>4}  {step:>9}  {median:>9}  {wait:>8}  {rank.doing or '–'}"
