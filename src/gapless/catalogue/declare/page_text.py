"""Text of the pages of rows: rules and fixes that have no docstring of their own."""

from textwrap import fill
from typing import Final

_WIDTH: Final = 96  # of a docstring's line


def fold_page(text: str) -> str:
    """Return a page with its paragraphs folded like a docstring's; headings stay as they are."""
    return "\n\n".join(map(_fold_paragraph, text.strip().split("\n\n")))


def _fold_paragraph(text: str) -> str:
    heading, newline, words = text.rpartition("\n") if text.startswith("## ") else ("", "", text)
    return heading + newline + fill(words, _WIDTH, break_on_hyphens=False)
