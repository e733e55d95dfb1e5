"""The account on a terminal: what the first screen shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from gapless.report.account import Line, Part, Sheet
from gapless.report.pen import Pen, bar
from gapless.report.text import pad
from gapless.report.wrap import fold

_BAR: Final = 28
_MUCH: Final = 0.05  # of the sum: parts that are worth a second line
_NARROW: Final = 24  # cells: with less beside it, the footing stands below the sum
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


@dataclass(frozen=True)
class Words:
    """What stands around an account: its title, what the sum rests on, a remark on a group."""

    title: str
    footing: str
    remarks: Mapping[str, str] = field(default_factory=dict[str, str])


def account_lines(laid: Sheet, pen: Pen, words: Words) -> Iterator[Text]:
    """Give the account with bars and its visible sum."""
    yield Text(words.title, "bold")
    wide = max(len(line.name) for line in laid.lines)
    figures = max(len(laid.unit.text(laid.digits)), 6)
    room = min(_BAR, pen.width - wide - figures - 18)
    for line in laid.lines:
        value = f"{laid.unit.text(line.digits):>{figures}} {laid.unit.name} {line.percent:>5} %"
        text = Text(f"  {pad(line.name, wide)}  {value}")
        if room > 0 and line.digits:
            text.append("  ")
            text.append(bar(line.share, room, pen.signs), STYLES[line.group])
        yield text
        yield from _parts(line, laid, pen, words.remarks.get(line.group, ""))
    yield from _total(laid, pen, wide + 4, words.footing)


def _total(laid: Sheet, pen: Pen, indent: int, footing: str) -> Iterator[Text]:
    figures = max(len(laid.unit.text(laid.digits)), 6)
    total = f"{laid.unit.text(laid.digits):>{figures}} {laid.unit.name} 100.0 %"
    yield Text(" " * indent + pen.signs.rule * len(total), _DIM)
    room = pen.width - indent - len(total) - 3
    if room < _NARROW:
        yield Text.assemble(" " * indent, (total, "bold"))
        yield from (Text("  ") + line for line in fold(f"({footing})", pen.width - 2))
        return
    first, *more = fold(f"({footing})", room)
    yield Text.assemble(" " * indent, (total, "bold"), "   ", first)
    yield from (Text(" " * (indent + len(total) + 3)) + line for line in more)


def _parts(line: Line, laid: Sheet, pen: Pen, remark: str) -> Iterator[Text]:
    """Give a group's parts, then what is remarked on it, beside them where there is room."""
    lines = list(_part_lines(line, laid, pen))
    if remark and lines and len(lines[-1]) + 2 + len(remark) <= pen.width:
        lines[-1].append(f"  {remark}")
    elif remark:
        lines += [Text("     ") + text for text in fold(remark, pen.width - 5, _DIM)]
    yield from lines


def _part_lines(line: Line, laid: Sheet, pen: Pen) -> Iterator[Text]:
    """Give a group's parts, the largest first, on a line; on two if much would not be named."""
    parts = [part for part in line.parts if part.digits]
    if not parts:
        return
    room = pen.width - 5
    first, rest = _packed(parts, laid, room)
    if rest and sum(part.digits for part in rest) > _MUCH * laid.digits:
        first, rest = _packed(parts, laid, room, closed=False)
        second, rest = _packed(rest, laid, room)
        yield Text(f"     {first}", _DIM)
        yield Text(f"     {second}", _DIM)
    else:
        yield Text(f"     {first}", _DIM)


def _packed(
    parts: Sequence[Part], laid: Sheet, room: int, *, closed: bool = True
) -> tuple[str, Sequence[Part]]:
    """Join as many parts as fit, at least one; a closed line sums up those that do not."""
    kept = len(parts)
    while len(text := _joined(parts, kept, laid, closed=closed)) > room and kept > 1:
        kept -= 1
    return text, parts[kept:]


def _joined(parts: Sequence[Part], kept: int, laid: Sheet, *, closed: bool) -> str:
    texts = [f"{part.name} {laid.unit.text(part.digits)}" for part in parts[:kept]]
    if closed and kept < len(parts):
        rest = sum(part.digits for part in parts[kept:])
        texts.append(f"{len(parts) - kept} more {laid.unit.text(rest)}")
    return " · ".join(texts)
