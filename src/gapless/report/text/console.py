"""Where lines go: a width, colours or none, and the signs that the stream can carry."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO

from msgspec import Struct
from rich.console import Console
from rich.text import Text

_MIN_WIDTH: Final = 40
_DEFAULT_WIDTH: Final = 100  # columns without a terminal


class Signs(Struct, frozen=True):
    """What bars and rules are drawn with, and replacements for signs that cannot be encoded."""

    blocks: str  # from one eighth to a whole
    rule: str
    replacements: Mapping[int, str | int]  # as wide as what they replace: columns stay aligned
    sparks: str  # from lowest to highest


UNICODE: Final = Signs("▏▎▍▌▋▊▉█", "─", {}, "▁▂▃▄▅▆▇█")
_PLAIN_SPARKS: Final = "_.-:=+*#"
_PLAIN: Final = str.maketrans(f"·µ×−–…±{UNICODE.sparks}", f"|ux--~~{_PLAIN_SPARKS}")
ASCII: Final = Signs("#", "-", _PLAIN, _PLAIN_SPARKS)


class Pen(Struct, frozen=True):
    """A console of rich that writes text as it is: no markup, no highlighting, no wrapping."""

    console: Console
    width: int
    signs: Signs

    def write(self, lines: Iterable[Text]) -> None:
        """Write lines, all or (where making one of them fails) none."""
        with self.console.capture() as text:  # rich itself would exit where a pipe is closed
            for line in lines:
                self.console.print(
                    line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True
                )
        self.console.file.write(text.get().translate(self.signs.replacements))


def pen_for(stream: TextIO, width: int | None = None) -> Pen:
    """Make a pen for a stream: colours only on a terminal, and not with NO_COLOR."""
    terminal = stream.isatty()
    console = Console(
        file=stream,
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=terminal,
        no_color=not terminal or bool(os.environ.get("NO_COLOR")),
        color_system="auto" if terminal else None,
    )
    knows_width = terminal or os.environ.get("COLUMNS", "").isdigit()
    columns = width or (console.width if knows_width else _DEFAULT_WIDTH)
    unicode = (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    return Pen(console, max(columns, _MIN_WIDTH), UNICODE if unicode else ASCII)


def bar(share: float, width: int, signs: Signs) -> str:
    """Draw a share of a width as finely as the signs allow; above zero something shows."""
    steps = len(signs.blocks)
    eighths = round(share * width * steps)
    if share > 0:
        eighths = max(eighths, 1)
    full_blocks, eighths_left = divmod(eighths, steps)
    return signs.blocks[-1] * full_blocks + (signs.blocks[eighths_left - 1] if eighths_left else "")


def spark(points: Sequence[float | None], top: float, width: int, signs: Signs) -> str:
    """Draw a series in at most ``width`` signs from 0 to ``top``; a gap where nothing is known."""
    count = min(width, len(points))
    bounds = [index * len(points) // count for index in range(count + 1)] if count > 0 else []
    groups = [points[lo:hi] for lo, hi in itertools.pairwise(bounds)]
    return "".join(
        _height([point for point in group if point is not None], top, signs) for group in groups
    )


def _height(values: Sequence[float], top: float, signs: Signs) -> str:
    if not values:
        return " "
    share = sum(values) / len(values) / top if top > 0 else 0.0
    return signs.sparks[min(int(share * len(signs.sparks)), len(signs.sparks) - 1)]
