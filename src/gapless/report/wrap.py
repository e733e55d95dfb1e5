"""Text folded within a width, as counted in cells of a terminal."""

import re
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from gapless.report.text import shorten

_BREAKS: Final = re.compile(r" (?![·%]|(?:[mµ]?s|[KMGT]?i?B(?:/s)?)\b)")  # not before a unit


def fold(line: str, width: int, style: str = "") -> list[Text]:
    """Break a line at spaces; a word that is longer than a line is shortened in its middle."""
    found: list[str] = []
    for word in _BREAKS.split(line):
        fits = shorten(word, width)
        if found and cell_len(found[-1]) + 1 + cell_len(fits) <= width:
            found[-1] += f" {fits}"
        else:
            found.append(fits)
    return [Text(one, style) for one in found]
