"""The tables that users know from the profiler they had: one file each."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from gapless.capture.tables.collectives import COLLECTIVES
from gapless.capture.tables.copies import COPIES
from gapless.capture.tables.kernels import KERNELS
from gapless.capture.tables.kind import TableKind
from gapless.capture.tables.lines import LINES
from gapless.capture.tables.memory import MEMORY
from gapless.capture.tables.operators import OPERATORS
from gapless.capture.tables.ranges import RANGES
from gapless.capture.view import CaptureView
from gapless.model.tables import Tables

# What takes longest is begun first.
TABLES: Final[tuple[TableKind, ...]] = (
    LINES,
    OPERATORS,
    KERNELS,
    COPIES,
    COLLECTIVES,
    RANGES,
    MEMORY,
)


def build_tables(view: CaptureView, *, by_shape: bool) -> Tables:
    """Build all tables of one capture."""
    with ThreadPoolExecutor(2) as pool:  # NumPy lets the other thread run meanwhile
        builds = {kind.name: pool.submit(kind.build, view, by_shape) for kind in TABLES}
    rows: dict[str, Any] = {name: build.result() for name, build in builds.items()}
    return Tables(**rows)


def merge_tables(rank_tables: Sequence[Tables]) -> Tables:
    """Add up the tables of several ranks, each sorted again."""
    rows: dict[str, Any] = {
        kind.name: kind.merge(getattr(tables, kind.name) for tables in rank_tables)
        for kind in TABLES
    }
    return Tables(**rows)
