"""What would help: proposals as rows, with what each is predicted to give, and why some are not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from gapless.model.edit import Proposal
from gapless.model.interval import Interval
from gapless.model.leaf import PRINTED
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.report.causes import (
    ALLOWED,
    cause_lines,
    first_lines,
    harmless_lines,
    place,
    try_lines,
)
from gapless.report.numbers import unit_for
from gapless.report.onward import typed
from gapless.report.pen import Pen
from gapless.report.text import clean, pad, shorten
from gapless.report.trials import interval
from gapless.report.wrap import fold

_MOST: Final = 6  # proposals that are shown
_REFUSED: Final = 4
_LEAST: Final = 0.01  # what a proposal adds to those before it, so that it has a line
_HEADS: Final = ("", "", "", "", "predicted step", "is worth")
_DROPPED: Final = (4, 2, 3)  # columns that go where it is narrow, the first first
_GROUPS: Final = 3  # of where a step would go
_TOLD: Final = 0.01  # of a step, at least
_HEAD: Final = 10  # cells of a name at least: the title of the table stands above it
_NAME: Final = 1
_STYLE: Final = "bright_black"


@dataclass(frozen=True)
class Row:
    """A proposal in print."""

    number: str
    fix: str  # as ``gapless try --fix`` takes it
    summary: str
    where: str
    kind: str  # its class
    step: str
    worth: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Give its columns in order."""
        return (self.number, self.summary, self.where, self.kind, self.step, self.worth)


def remedy_screen(study: Study, pen: Pen) -> Iterator[Text]:
    """Give causes, what would help, and what is harmless; nothing where none was looked for."""
    found = study.diagnosis
    if found is None:
        return
    if study.recorded is None:  # of a run it stands above the account
        for line in first_lines(found):
            yield from fold(line, pen.width, style="bold")
    yield from _causes(study, pen)
    rows = remedy_rows(study)
    if rows:
        yield from _table(rows, pen)
        yield from _then(study, pen)
    marked = [("?", one) for one in try_lines(found)]
    marked += [("×", one) for one in refused_lines(study)]
    marked += [("–", one) for one in harmless_lines(found)]
    if marked and not rows:
        yield Text("also seen" if found.findings else "what was seen", "bold")
    for sign, line in marked:
        yield from _marked(sign, line, pen)
    yield from (Text(one) for line in end_lines(study) for one in _folded(line, pen))


def _causes(study: Study, pen: Pen) -> Iterator[Text]:
    found = study.diagnosis
    if found is None:
        return
    lines = list(cause_lines(found))
    if lines:
        yield from fold("what costs time, and what a step without it is worth", pen.width, "bold")
    for line in lines:
        deep = line.startswith("  ")
        for one in fold(line.strip(), pen.width - (7 if deep else 2)):
            yield Text("       " if deep else "  ") + one


def remedy_rows(study: Study) -> tuple[Row, ...]:
    """Give the proposals that may be done, numbered, as far as each adds to those before."""
    step = Seen(study, None).step_ns
    rows: list[Row] = []
    numbers: dict[str, str] = {}
    gains: dict[tuple[str, ...], Interval] = {}
    for one in study.proposals:
        if one.refused is not None or len(rows) == _MOST:
            continue
        base = gains.get(one.after)
        if base is not None and one.together is not None and not _adds(base, one.together):
            continue
        number = str(len(rows) + 1)
        numbers.setdefault(one.fix, number)
        whole = one.together or one.speedup
        if whole is not None:
            gains[(*one.after, one.fix)] = whole
        rows.append(
            Row(
                number=number,
                fix=typed(study, one),
                summary=clean(_without_place(one)),
                where=place(one.where),
                kind=one.applicability.value,
                step="" if whole is None or step is None else _step(step, whole),
                worth=_worth(one, base, numbers),
            )
        )
    return tuple(rows)


def then_line(study: Study) -> str:
    """Say where a step would go with the first proposal done; empty where that is not known."""
    able = [one for one in study.proposals if one.refused is None]
    found = able[0].outcome if able else None
    if found is None or found.step_ns <= 0:
        return ""
    shares = {name: ns / found.step_ns for name, ns in found.groups.items()}
    most = sorted(shares, key=lambda name: -shares[name])[:_GROUPS]
    parts = [
        f"{PRINTED[name]} {shares[name] * 100:.0f} %" for name in most if shares[name] >= _TOLD
    ]
    return f"after 1 a step would go to {', '.join(parts)}"


def _adds(base: Interval, whole: Interval) -> bool:
    return whole.mid / base.mid - 1 >= _LEAST


def _without_place(one: Proposal) -> str:
    """Give what is changed without its line, which has a column of its own."""
    ending = f" at {place(one.where)}"
    return one.summary.removesuffix(ending) if one.where is not None else one.summary


def _worth(one: Proposal, base: Interval | None, numbers: dict[str, str]) -> str:
    if one.speedup is None:
        return "not predicted: try it"
    if base is None or one.together is None:
        return interval(one.speedup)
    after = ", ".join(numbers.get(name, name) for name in one.after)
    return f"+{one.together.mid / base.mid - 1:.0%} after {after}".replace("%", " %")


def _step(step: float, speedup: Interval) -> str:
    """Print a predicted step at two or three digits, its bounds in the same unit."""
    unit = unit_for(step / speedup.mid)
    times = [step / one / unit.ns for one in (speedup.high, speedup.mid, speedup.low)]
    low, mid, high = (f"{one:,.0f}" if one >= 10 else f"{one:.2g}" for one in times)  # noqa: PLR2004
    return f"{mid} {unit.name} [{low} … {high}]"


def refused_lines(study: Study) -> Iterator[str]:
    """Say which fixes must not be done here, and why."""
    refusals = [one for one in study.proposals if one.refused is not None]
    for one in refusals[:_REFUSED]:
        yield f"{one.fix}: refused: {clean(one.refused or '')}"
    if len(refusals) > _REFUSED:
        yield f"{len(refusals) - _REFUSED} more are refused (--json has them)"


def end_lines(study: Study) -> Iterator[str]:
    """Say what to do next, and what the intervals rest on."""
    found = study.diagnosis
    able = [one for one in study.proposals if one.refused is None]
    predictions = [one for one in able if one.speedup is not None]
    if predictions and not all(one.calibrated for one in predictions):
        yield (
            "intervals are uncalibrated: fewer than 20 measured cases of their kind stand behind "
            "them"
        )
    if found is None or not found.findings:
        return
    first = f"prove it: {_trial(able[0])}     " if able and study.recorded is not None else ""
    yield f"{first}why: gapless explain {found.findings[0].loss.code}"


def _trial(one: Proposal) -> str:
    """Give the command that tries the first proposal."""
    allowed = ALLOWED.get(one.applicability)
    return "gapless try" if allowed is None else f"gapless try --fix {one.fix} {allowed}"


def _then(study: Study, pen: Pen) -> Iterator[Text]:
    line = then_line(study)
    for one in fold(line, pen.width - 5, _STYLE) if line else ():
        yield Text("     ") + one


def _marked(sign: str, line: str, pen: Pen) -> Iterator[Text]:
    for at, text in enumerate(fold(line, pen.width - 5, _STYLE)):
        yield Text(f"  {sign}  " if at == 0 else "     ", _STYLE) + text


def _folded(line: str, pen: Pen) -> Iterator[str]:
    """Fold a line; the wide spaces between its parts stay where it fits."""
    if len(line) <= pen.width:
        yield line
    else:
        yield from (one.plain for one in fold(" ".join(line.split()), pen.width))


def _table(rows: Sequence[Row], pen: Pen) -> Iterator[Text]:
    """Lay rows out by the name that one types, with what it changes beside it, or else below.

    Where it is narrow, the figure that can be worked out goes first. No name is cut.
    """
    beside = [_HEADS, *(_cells(row, f"{row.fix}: {row.summary}") for row in rows)]
    kept = _kept(beside, _DROPPED[:1], pen)
    if _room(beside, kept, pen) >= _wide(beside, _NAME):
        yield from _laid(beside, kept, pen)
        return
    alone = [_HEADS, *(_cells(row, row.fix) for row in rows)]
    lines = list(_laid(alone, _kept(alone, _DROPPED, pen), pen))
    yield lines[0]
    for line, row in zip(lines[1:], rows, strict=True):
        yield line
        yield from (Text("     ") + one for one in fold(row.summary, pen.width - 5, _STYLE))


def _cells(row: Row, name: str) -> tuple[str, ...]:
    return (row.number, name, *row.cells[2:])


def _kept(cells: Sequence[tuple[str, ...]], dropped: Sequence[int], pen: Pen) -> list[int]:
    """Give the columns that there is room for."""
    kept = list(range(len(_HEADS)))
    for at in dropped:
        if _room(cells, kept, pen) >= _wide(cells, _NAME):
            break
        kept.remove(at)
    return kept


def _laid(cells: Sequence[tuple[str, ...]], kept: Sequence[int], pen: Pen) -> Iterator[Text]:
    widths = {at: _wide(cells, at) for at in kept}
    widths[_NAME] = max(_HEAD, min(widths[_NAME], _room(cells, kept, pen)))
    for at, row in enumerate(cells):
        texts = [pad(shorten(row[one], widths[one]), widths[one]) for one in kept]
        line = f"  {'  '.join(texts)}".rstrip()
        yield Text(f"what would help{line[15:]}", "bold") if at == 0 else Text(line)


def _wide(cells: Sequence[tuple[str, ...]], at: int) -> int:
    return max(len(row[at]) for row in cells)


def _room(cells: Sequence[tuple[str, ...]], kept: Sequence[int], pen: Pen) -> int:
    """Give the cells that are left for what would be changed."""
    others = [_wide(cells, at) + 2 for at in kept if at != _NAME]
    return pen.width - 2 - sum(others)
