"""Tables of the page: those of the report, whole, and the steps one by one."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from gapless.model.leaf import GROUPS, PRINTED
from gapless.model.study import Study
from gapless.report.sections.grids import NAMES, table_grid, table_title
from gapless.report.sections.summary import row_ns
from gapless.report.text.text import clean, kernel_name

_MAX_ROWS: Final = 1000  # of a table: more are in the CSV
_ABSENT: Final = "–"
_NUMBER: Final = re.compile(r"[<>]? ?[\d,.]+")


class Sheet(Struct, frozen=True):
    """A table that can be sorted and filtered; the first column names."""

    name: str
    title: str
    basis: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden_rows: int

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold figures: they are aligned to the right."""
        columns = zip(*self.rows, strict=True)
        return tuple(
            all(cell == _ABSENT or _NUMBER.match(cell) is not None for cell in column)
            for column in columns
        )


def sheets(study: Study) -> Iterator[Sheet]:
    """Yield the tables that have rows."""
    for name in NAMES:
        grid = table_grid(study, name, top=_MAX_ROWS)
        if not grid.cells:
            continue
        columns = [
            index
            for index in range(len(grid.titles))
            if index == 0 or any(row[index] != _ABSENT for row in grid.cells)
        ]
        yield Sheet(
            name=name,
            title=table_title(name),
            basis="a step" if study.account.steps is not None else "the whole capture",
            heads=tuple(grid.titles[index] for index in columns),
            rows=tuple(tuple(_cell(row[index]) for index in columns) for row in grid.cells),
            hidden_rows=grid.hidden_rows,
        )
    if study.account.steps is not None and study.account.rows:
        yield _steps_sheet(study)


def _cell(text: str) -> str:
    return kernel_name(clean(text))


def _steps_sheet(study: Study) -> Sheet:
    """Return the rows of the ledger: each step on each device, in ms by group."""
    rows = study.account.rows
    groups = [group for group in GROUPS if any(row.groups.get(group) for row in rows)]
    return Sheet(
        name="steps",
        title="steps recorded whole",
        basis="ms",
        heads=("step", "rank", "device", "ms", *(PRINTED[group] for group in groups)),
        rows=tuple(
            (
                _ABSENT if row.row.step is None else str(row.row.step),
                _ABSENT if row.row.rank is None else str(row.row.rank),
                "CPU" if row.row.device is None else f"GPU {row.row.device}",
                f"{row_ns(row) / 1e6:,.3f}",
                *(f"{row.groups.get(group, 0) / 1e6:,.3f}" for group in groups),
            )
            for row in rows[:_MAX_ROWS]
        ),
        hidden_rows=max(0, len(rows) - _MAX_ROWS),
    )
