"""The account on a terminal: what the first screen shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from rich.text import Text

from gapless.report.sections.account import AccountSheet, GroupLine, LeafPart
from gapless.report.text.console import Pen, bar
from gapless.report.text.text import pad
from gapless.report.text.wrap import fold

_BAR_CELLS: Final = 28
_MIN_UNNAMED_SHARE: Final = 0.05  # of the sum: parts that are worth a second line
_MIN_FOOTING_CELLS: Final = 24  # cells: with less room, the footing is below the sum
_DIM: Final = "bright_black"
STYLES: Final = {
    "compute": "green",
    "copy": "cyan",
    "communication": "blue",
    "data": "red",
    "host": "yellow",
    "sync": "magenta",
    "runtime": "yellow",
    "io": "yellow",
    "unknown": _DIM,
    "observer": _DIM,
    "step": "green",
}


class AccountCaption(Struct, frozen=True):
    """The context of an account: its title, what the sum is based on, a remark on a group."""

    title: str
    footing: str
    remarks: Mapping[str, str] = field(default_factory=dict[str, str])


def account_lines(sheet: AccountSheet, pen: Pen, caption: AccountCaption) -> Iterator[Text]:
    """Return the account with bars and its visible sum."""
    yield Text(caption.title, "bold")
    name_width = max(len(line.name) for line in sheet.lines)
    figure_width = max(len(sheet.unit.text(sheet.digits)), 6)
    bar_width = min(_BAR_CELLS, pen.width - name_width - figure_width - 18)
    for line in sheet.lines:
        value = (
            f"{sheet.unit.text(line.digits):>{figure_width}} {sheet.unit.name} {line.percent:>5} %"
        )
        text = Text(f"  {pad(line.name, name_width)}  {value}")
        if bar_width > 0 and line.digits:
            text.append("  ")
            text.append(bar(line.share, bar_width, pen.signs), STYLES[line.group])
        yield text
        yield from _remarked_lines(line, sheet, pen, caption.remarks.get(line.group, ""))
    yield from _total(sheet, pen, name_width + 4, caption.footing)


def _total(sheet: AccountSheet, pen: Pen, indent: int, footing: str) -> Iterator[Text]:
    figure_width = max(len(sheet.unit.text(sheet.digits)), 6)
    total = f"{sheet.unit.text(sheet.digits):>{figure_width}} {sheet.unit.name} 100.0 %"
    yield Text(" " * indent + pen.signs.rule * len(total), _DIM)
    footing_width = pen.width - indent - len(total) - 3
    if footing_width < _MIN_FOOTING_CELLS:
        yield Text.assemble(" " * indent, (total, "bold"))
        yield from (Text("  ") + line for line in fold(f"({footing})", pen.width - 2))
        return
    first_line, *more_lines = fold(f"({footing})", footing_width)
    yield Text.assemble(" " * indent, (total, "bold"), "   ", first_line)
    yield from (Text(" " * (indent + len(total) + 3)) + line for line in more_lines)


def _remarked_lines(line: GroupLine, sheet: AccountSheet, pen: Pen, remark: str) -> Iterator[Text]:
    """Return a group's parts, then the remark on it, on the same line if there is room."""
    lines = list(_part_lines(line, sheet, pen))
    if remark and lines and len(lines[-1]) + 2 + len(remark) <= pen.width:
        lines[-1].append(f"  {remark}")
    elif remark:
        lines += [Text("     ") + text for text in fold(remark, pen.width - 5, _DIM)]
    yield from lines


def _part_lines(line: GroupLine, sheet: AccountSheet, pen: Pen) -> Iterator[Text]:
    """Return a group's parts, the largest first, on a line; on two if much would not be named."""
    parts = [leaf_part for leaf_part in line.parts if leaf_part.digits]
    if not parts:
        return
    room = pen.width - 5
    first_line, remaining = _pack_parts(parts, sheet, room)
    if (
        remaining
        and sum(leaf_part.digits for leaf_part in remaining) > _MIN_UNNAMED_SHARE * sheet.digits
    ):
        first_line, remaining = _pack_parts(parts, sheet, room, is_closed=False)
        second_line, remaining = _pack_parts(remaining, sheet, room)
        yield Text(f"     {first_line}", _DIM)
        yield Text(f"     {second_line}", _DIM)
    else:
        yield Text(f"     {first_line}", _DIM)


def _pack_parts(
    parts: Sequence[LeafPart], sheet: AccountSheet, room: int, *, is_closed: bool = True
) -> tuple[str, Sequence[LeafPart]]:
    """Join as many parts as fit, at least one; a closed line sums up those that do not."""
    count = len(parts)
    while len(text := _join_parts(parts, count, sheet, is_closed=is_closed)) > room and count > 1:
        count -= 1
    return text, parts[count:]


def _join_parts(
    parts: Sequence[LeafPart], count: int, sheet: AccountSheet, *, is_closed: bool
) -> str:
    texts = [f"{leaf_part.name} {sheet.unit.text(leaf_part.digits)}" for leaf_part in parts[:count]]
    if is_closed and count < len(parts):
        remaining = sum(leaf_part.digits for leaf_part in parts[count:])
        texts.append(f"{len(parts) - count} more {sheet.unit.text(remaining)}")
    return " · ".join(texts)
