"""What would help: proposals as rows, with what each is predicted to give, and why some are not."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from gapless.model.edit import Proposal
from gapless.model.estimate import Estimate
from gapless.model.evidence import mean_step_ns
from gapless.model.leaf import PRINTED
from gapless.model.study import Study
from gapless.report.sections.causes import (
    PERMISSION_OPTIONS,
    cause_lines,
    first_lines,
    harmless_lines,
    line_ref,
    try_lines,
)
from gapless.report.sections.next_command import fix_spec_of
from gapless.report.sections.trials import ratio_text
from gapless.report.text.console import Pen
from gapless.report.text.numbers import unit_for
from gapless.report.text.text import clean, cut_middle, pad
from gapless.report.text.wrap import fold

_MAX_PROPOSALS: Final = 6  # proposals that are shown
_MAX_REFUSED: Final = 4
_MIN_ADDED_GAIN: Final = 0.01  # the least that a proposal adds to those before it, to get a line
_HEADS: Final = ("", "", "", "", "predicted step", "is worth")
_DROPPABLE_COLUMNS: Final = (4, 2, 3)  # columns that are dropped in narrow terminals, in this order
_MAX_GROUPS: Final = 3  # groups of where a step would go
_MIN_GROUP_SHARE: Final = 0.01  # of a step, at least
_MIN_NAME_CELLS: Final = 10  # cells of a name at least: the table's title is above it
_NAME_COLUMN: Final = 1
_STYLE: Final = "bright_black"


class ProposalRow(Struct, frozen=True):
    """A proposal in print."""

    number: str
    fix: str  # as ``gapless try --fix`` takes it
    summary: str
    location: str
    kind: str  # its class
    step: str
    worth: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the columns in order."""
        return (self.number, self.summary, self.location, self.kind, self.step, self.worth)


def remedy_screen(study: Study, pen: Pen) -> Iterator[Text]:
    """Return causes, what would help, and what is harmless; nothing if none was looked for."""
    diagnosis = study.diagnosis
    if diagnosis is None:
        return
    if study.recorded is None:  # in a run it is above the account
        for line in first_lines(diagnosis):
            yield from fold(line, pen.width, style="bold")
    yield from _causes(study, pen)
    rows = remedy_rows(study)
    if rows:
        yield from _table(rows, pen)
        yield from _then_lines(study, pen)
    marked_lines = [("?", try_line) for try_line in try_lines(diagnosis)]
    marked_lines += [("×", refusal) for refusal in refused_lines(study)]
    marked_lines += [("–", harmless) for harmless in harmless_lines(diagnosis)]
    if marked_lines and not rows:
        yield Text("also seen" if diagnosis.findings else "what was seen", "bold")
    for sign, line in marked_lines:
        yield from _mark_line(sign, line, pen)
    yield from (Text(text) for line in end_lines(study) for text in _fold_line(line, pen))


def _causes(study: Study, pen: Pen) -> Iterator[Text]:
    diagnosis = study.diagnosis
    if diagnosis is None:
        return
    lines = list(cause_lines(diagnosis))
    if lines:
        yield from fold("what costs time, and what a step without it is worth", pen.width, "bold")
    for line in lines:
        is_nested = line.startswith("  ")
        for text in fold(line.strip(), pen.width - (7 if is_nested else 2)):
            yield Text("       " if is_nested else "  ") + text


def remedy_rows(study: Study) -> tuple[ProposalRow, ...]:
    """Return the applicable proposals, numbered, as far as each adds to those before."""
    step = mean_step_ns(study)
    rows: list[ProposalRow] = []
    numbers: dict[str, str] = {}
    gains: dict[tuple[str, ...], Estimate] = {}
    for proposal in study.proposals:
        if proposal.refused is not None or len(rows) == _MAX_PROPOSALS:
            continue
        base = gains.get(proposal.after)
        if (
            base is not None
            and proposal.together is not None
            and not _adds(base, proposal.together)
        ):
            continue
        number = str(len(rows) + 1)
        numbers.setdefault(proposal.fix, number)
        total_speedup = proposal.together or proposal.speedup
        if total_speedup is not None:
            gains[(*proposal.after, proposal.fix)] = total_speedup
        rows.append(
            ProposalRow(
                number=number,
                fix=fix_spec_of(study, proposal),
                summary=clean(_without_line(proposal)),
                location=line_ref(proposal.location),
                kind=proposal.applicability.value,
                step="" if total_speedup is None or step is None else _step(step, total_speedup),
                worth=_worth(proposal, base, numbers),
            )
        )
    return tuple(rows)


def then_line(study: Study) -> str:
    """Describe where a step would go with the first proposal; empty if not known."""
    applicable = [proposal for proposal in study.proposals if proposal.refused is None]
    outcome = applicable[0].outcome if applicable else None
    if outcome is None or outcome.step_ns <= 0:
        return ""
    shares = {name: ns / outcome.step_ns for name, ns in outcome.groups.items()}
    largest = sorted(shares, key=lambda name: -shares[name])[:_MAX_GROUPS]
    parts = [
        f"{PRINTED[name]} {shares[name] * 100:.0f} %"
        for name in largest
        if shares[name] >= _MIN_GROUP_SHARE
    ]
    return f"after 1 a step would go to {', '.join(parts)}"


def _adds(base: Estimate, total_speedup: Estimate) -> bool:
    return total_speedup.mid / base.mid - 1 >= _MIN_ADDED_GAIN


def _without_line(proposal: Proposal) -> str:
    """Return what is changed without its line, which has a column of its own."""
    ending = f" at {line_ref(proposal.location)}"
    return (
        proposal.summary.removesuffix(ending) if proposal.location is not None else proposal.summary
    )


def _worth(proposal: Proposal, base: Estimate | None, numbers: dict[str, str]) -> str:
    if proposal.speedup is None:
        bound = proposal.at_most
        return "not predicted: try it" if bound is None else f"at most {bound.high:.1f}×: try it"
    if base is None or proposal.together is None:
        return ratio_text(proposal.speedup)
    previous = ", ".join(numbers.get(name, name) for name in proposal.after)
    return f"+{proposal.together.mid / base.mid - 1:.0%} after {previous}".replace("%", " %")


def _step(step: float, speedup: Estimate) -> str:
    """Format a predicted step with two or three digits, its bounds in the same unit."""
    unit = unit_for(step / speedup.mid)
    times = [step / ratio / unit.ns for ratio in (speedup.high, speedup.mid, speedup.low)]
    low, mid, high = (f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}" for amount in times)  # noqa: PLR2004
    return f"{mid} {unit.name} [{low} … {high}]"


def refused_lines(study: Study) -> Iterator[str]:
    """Describe which fixes must not be done here, and why."""
    refusals = [proposal for proposal in study.proposals if proposal.refused is not None]
    for proposal in refusals[:_MAX_REFUSED]:
        yield f"{proposal.fix}: refused: {clean(proposal.refused or '')}"
    if len(refusals) > _MAX_REFUSED:
        yield f"{len(refusals) - _MAX_REFUSED} more are refused (--json has them)"


def end_lines(study: Study) -> Iterator[str]:
    """Describe what to do next, and what the intervals are based on."""
    diagnosis = study.diagnosis
    applicable = [proposal for proposal in study.proposals if proposal.refused is None]
    predictions = [proposal for proposal in applicable if proposal.speedup is not None]
    if predictions and not all(proposal.calibrated for proposal in predictions):
        yield (
            "intervals are uncalibrated: fewer than 20 measured cases of their kind stand behind "
            "them"
        )
    if diagnosis is None or not diagnosis.findings:
        return
    proof = (
        f"prove it: {_try_command(applicable[0])}     "
        if applicable and study.recorded is not None
        else ""
    )
    yield f"{proof}why: gapless explain {diagnosis.findings[0].detection.code}"


def _try_command(proposal: Proposal) -> str:
    """Return the command that tries the first proposal."""
    option = PERMISSION_OPTIONS.get(proposal.applicability)
    return "gapless try" if option is None else f"gapless try --fix {proposal.fix} {option}"


def _then_lines(study: Study, pen: Pen) -> Iterator[Text]:
    line = then_line(study)
    for text in fold(line, pen.width - 5, _STYLE) if line else ():
        yield Text("     ") + text


def _mark_line(sign: str, line: str, pen: Pen) -> Iterator[Text]:
    for index, text in enumerate(fold(line, pen.width - 5, _STYLE)):
        yield Text(f"  {sign}  " if index == 0 else "     ", _STYLE) + text


def _fold_line(line: str, pen: Pen) -> Iterator[str]:
    """Fold a line; the wide spaces between its parts stay where it fits."""
    if len(line) <= pen.width:
        yield line
    else:
        yield from (text.plain for text in fold(" ".join(line.split()), pen.width))


def _table(rows: Sequence[ProposalRow], pen: Pen) -> Iterator[Text]:
    """Lay out rows by the name to type, with what it changes next to it, or else below.

    In narrow terminals, the figure that can be derived goes first. No name is cut.
    """
    wide_cells = [_HEADS, *(_cells(row, f"{row.fix}: {row.summary}") for row in rows)]
    columns = _fitting_columns(wide_cells, _DROPPABLE_COLUMNS[:1], pen)
    if _name_room(wide_cells, columns, pen) >= _column_width(wide_cells, _NAME_COLUMN):
        yield from _lay_out_rows(wide_cells, columns, pen)
        return
    narrow_cells = [_HEADS, *(_cells(row, row.fix) for row in rows)]
    lines = list(
        _lay_out_rows(narrow_cells, _fitting_columns(narrow_cells, _DROPPABLE_COLUMNS, pen), pen)
    )
    yield lines[0]
    for line, row in zip(lines[1:], rows, strict=True):
        yield line
        yield from (Text("     ") + text for text in fold(row.summary, pen.width - 5, _STYLE))


def _cells(row: ProposalRow, name: str) -> tuple[str, ...]:
    return (row.number, name, *row.cells[2:])


def _fitting_columns(
    cells: Sequence[tuple[str, ...]], droppable: Sequence[int], pen: Pen
) -> list[int]:
    """Return the columns that there is room for."""
    columns = list(range(len(_HEADS)))
    for column in droppable:
        if _name_room(cells, columns, pen) >= _column_width(cells, _NAME_COLUMN):
            break
        columns.remove(column)
    return columns


def _lay_out_rows(
    cells: Sequence[tuple[str, ...]], columns: Sequence[int], pen: Pen
) -> Iterator[Text]:
    widths = {column: _column_width(cells, column) for column in columns}
    widths[_NAME_COLUMN] = max(
        _MIN_NAME_CELLS, min(widths[_NAME_COLUMN], _name_room(cells, columns, pen))
    )
    for index, row in enumerate(cells):
        texts = [pad(cut_middle(row[column], widths[column]), widths[column]) for column in columns]
        line = f"  {'  '.join(texts)}".rstrip()
        yield Text(f"what would help{line[15:]}", "bold") if index == 0 else Text(line)


def _column_width(cells: Sequence[tuple[str, ...]], column: int) -> int:
    return max(len(row[column]) for row in cells)


def _name_room(cells: Sequence[tuple[str, ...]], columns: Sequence[int], pen: Pen) -> int:
    """Return the cells that remain for what would be changed."""
    other_widths = [
        _column_width(cells, column) + 2 for column in columns if column != _NAME_COLUMN
    ]
    return pen.width - 2 - sum(other_widths)
