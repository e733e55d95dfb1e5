"""A patch on the terminal: its fixes, its diff, and what is left to a person."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from gapless.report.text.console import Pen
from gapless.report.text.text import clean, pad
from gapless.report.text.wrap import fold

_STYLES: Final = (
    ("---", "bold"),
    ("+++", "bold"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
    ("\\", "dim"),
)
_HUNK: Final = re.compile(r"(@@ [^@]* @@)(.*)")
_MIN_NAME_CELLS: Final = 16


def fix_rows(rows: Iterable[tuple[str, str, str]], pen: Pen) -> Iterator[Text]:
    """Yield the fixes, a line each: its name, what it changes, what it gains."""
    table = [tuple(map(clean, row)) for row in rows]
    name_cells = max([_MIN_NAME_CELLS, *(len(row[0]) for row in table)])
    gain_cells = max((len(row[2]) for row in table), default=0)
    for name, summary, gain in table:
        line = f"  {pad(name, name_cells)}  {pad(gain, gain_cells)}  {summary}"
        yield from fold(line, pen.width)


def diff_texts(lines: Iterable[str]) -> Iterator[Text]:
    """Yield the lines of a diff in colours, safe to show."""
    for line in _split_lines(lines):
        style = next((style for start, style in _STYLES if line.startswith(start)), "")
        hunk = _HUNK.match(line)
        if hunk is None:
            yield Text(line, style=style)
        else:
            yield Text.assemble((hunk[1], style), (hunk[2], "bold"))


def _split_lines(lines: Iterable[str]) -> Iterator[str]:
    text = "".join(lines).removesuffix("\n")
    for line in text.split("\n") if text else ():
        yield "\t".join(map(clean, line.removesuffix("\r").split("\t")))


def manual_texts(title: str, reason: str, text: str, pen: Pen) -> Iterator[Text]:
    """Yield what a person has to write, and why the patch does not."""
    yield from fold(clean(f"by hand: {title}"), pen.width, style="bold")
    yield from fold(clean(f"  {reason}"), pen.width)
    for line in text.splitlines():
        yield Text("    " + "\t".join(map(clean, line.split("\t"))), style="green")
