"""Tables laid out in columns: names to the left, figures to the right, no lines between them."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from gapless.report.grids import Grid
from gapless.report.pen import Pen
from gapless.report.text import clean, kernel_name, pad, shorten

_NAME = 28  # cells that names get at least, before columns are left out for them
_GAP = 2
_WIDEST = 24  # of a figure's column: names of operators are shortened


def lay_out(title: str, grid: Grid, pen: Pen) -> Iterator[Text]:
    """Give a head and a line for each row; the least important columns go first."""
    rows = [[_safe(at, cell) for at, cell in enumerate(row)] for row in grid.cells]
    heads = [title, *grid.titles[1:]]
    widths = [
        max([cell_len(head), *(cell_len(row[at]) for row in rows)]) for at, head in enumerate(heads)
    ]
    kept = _fitting(widths, grid.weights, pen.width)
    room = pen.width - sum(widths[at] + _GAP for at in kept) - _GAP
    name = min(widths[0], room)
    yield Text.assemble(
        (pad(shorten(title, name + _GAP), name + _GAP), "bold"),
        *((_figure(heads[at], widths[at]), "bright_black") for at in kept),
    )
    for row in rows:
        first = pad(shorten(row[0], name), name)
        yield Text(f"  {first}" + "".join(_figure(row[at], widths[at]) for at in kept))


def _safe(at: int, cell: str) -> str:
    safe = clean(cell)
    return kernel_name(safe) if at == 0 else shorten(safe, _WIDEST)


def _figure(cell: str, width: int) -> str:
    return " " * _GAP + pad(cell, width, right=True)


def _fitting(widths: Sequence[int], weights: Sequence[int], total: int) -> list[int]:
    """Choose the columns beside the name: as many as leave it enough room, by their weight."""
    room = total - _GAP - min(widths[0], _NAME)
    kept: list[int] = []
    for at in sorted(range(1, len(widths)), key=lambda at: weights[at]):
        if widths[at] + _GAP > room:
            break
        room -= widths[at] + _GAP
        kept.append(at)
    return sorted(kept)
