"""Names from traces as text that is safe to show, and shortened by width.

A trace is somebody else's file. Whatever reaches a terminal goes through ``clean``: escape
sequences, control characters, line breaks and characters that turn the direction of writing have
no effect there.
"""

import re
import unicodedata
from typing import Final

from rich.cells import cell_len

_ESCAPES: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, the clipboard
    r"|\x1b[P_^X][^\x1b]*(?:\x1b\\)?"  # DCS, APC, PM, SOS
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_HARMLESS: Final = re.compile(r"[ -~]*\Z")
_ELLIPSIS: Final = "…"


def clean(name: str) -> str:
    """Return a name on one line, without anything that a terminal would act on."""
    if _HARMLESS.match(name):
        return name
    return "".join(_safe_char(char) for char in _ESCAPES.sub("", name))


def _safe_char(char: str) -> str:
    kind = unicodedata.category(char)
    if kind == "Cf":  # bidi overrides, zero-width characters, byte order marks
        return ""
    if kind in {"Cc", "Zl", "Zp"}:
        return " "
    return "\ufffd" if kind in {"Cs", "Co", "Cn"} else char


def cut_middle(text: str, width: int) -> str:
    """Cut a text in the middle so that it takes at most ``width`` cells of a terminal."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return _ELLIPSIS[:width]
    tail = (width - 1) // 2
    return (
        _fitting_prefix(text, width - 1 - tail)
        + _ELLIPSIS
        + _fitting_prefix(text[::-1], tail)[::-1]
    )


def cut_end(text: str, width: int) -> str:
    """Cut a text at its end so that it takes at most ``width`` (≥ 1) cells of a terminal."""
    return text if cell_len(text) <= width else _fitting_prefix(text, width - 1) + _ELLIPSIS


def _fitting_prefix(text: str, width: int) -> str:
    """Return as much of the start of a text, which is wider than ``width``, as fits."""
    index = cells = 0
    while (cells := cells + cell_len(text[index])) <= width:
        index += 1
    return text[:index]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to a width in cells; ``right`` puts them before it."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


_RESULT: Final = re.compile(r"^(static )?(void|auto) ")


def kernel_name(name: str) -> str:
    """Drop what all C++ kernels have in common: the result's type and the list of parameters."""
    depth = 0
    for index in range(len(name) - 1, 0, -1):
        depth += (name[index] == ")") - (name[index] == "(")
        if depth == 0:
            has_list = name[index] == "(" and name[index - 1] != " "
            return _RESULT.sub("", name[:index] if has_list else name)
    return name
