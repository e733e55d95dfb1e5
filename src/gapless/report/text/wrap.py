"""Text folded within a width, as counted in cells of a terminal."""

import re
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from gapless.report.text.text import cut_middle

_BREAKS: Final = re.compile(r" (?![·%]|(?:[mµ]?s|[KMGT]?i?B(?:/s)?)\b)")  # not before a unit


def fold(line: str, width: int, style: str = "") -> list[Text]:
    """Break a line at spaces; a word that is longer than a line is shortened in its middle."""
    lines: list[str] = []
    for word in _BREAKS.split(line):
        fits = cut_middle(word, width)
        if lines and cell_len(lines[-1]) + 1 + cell_len(fits) <= width:
            lines[-1] += f" {fits}"
        else:
            lines.append(fits)
    return [Text(folded, style) for folded in lines]
