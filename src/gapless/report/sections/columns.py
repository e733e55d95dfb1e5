"""Tables laid out in columns: names to the left, figures to the right, no lines between them."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from gapless.report.sections.grids import Grid
from gapless.report.text.console import Pen
from gapless.report.text.text import clean, cut_middle, kernel_name, pad

_MIN_NAME_CELLS = 28  # cells that names get at least, before columns are left out for them
_GAP = 2
_MAX_FIGURE_CELLS = 24  # of a figure's column: names of operators are shortened


def lay_out_grid(title: str, grid: Grid, pen: Pen) -> Iterator[Text]:
    """Return a head and a line for each row; the least important columns go first."""
    rows = [[_safe_cell(column, cell) for column, cell in enumerate(row)] for row in grid.cells]
    heads = [title, *grid.titles[1:]]
    widths = [
        max([cell_len(head), *(cell_len(row[column]) for row in rows)])
        for column, head in enumerate(heads)
    ]
    columns = _fitting_columns(widths, grid.weights, pen.width)
    room = pen.width - sum(widths[column] + _GAP for column in columns) - _GAP
    name = min(widths[0], room)
    yield Text.assemble(
        (pad(cut_middle(title, name + _GAP), name + _GAP), "bold"),
        *((_figure_cell(heads[column], widths[column]), "bright_black") for column in columns),
    )
    for row in rows:
        row_name = pad(cut_middle(row[0], name), name)
        yield Text(
            f"  {row_name}"
            + "".join(_figure_cell(row[column], widths[column]) for column in columns)
        )


def _safe_cell(column: int, cell: str) -> str:
    text = clean(cell)
    return kernel_name(text) if column == 0 else cut_middle(text, _MAX_FIGURE_CELLS)


def _figure_cell(cell: str, width: int) -> str:
    return " " * _GAP + pad(cell, width, right=True)


def _fitting_columns(widths: Sequence[int], weights: Sequence[int], total: int) -> list[int]:
    """Choose the columns next to the name: as many as leave it enough room, by their weight."""
    room = total - _GAP - min(widths[0], _MIN_NAME_CELLS)
    columns: list[int] = []
    for column in sorted(range(1, len(widths)), key=lambda column: weights[column]):
        if widths[column] + _GAP > room:
            break
        room -= widths[column] + _GAP
        columns.append(column)
    return sorted(columns)
