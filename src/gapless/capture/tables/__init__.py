"""The tables that users know from the profiler they had: one file each."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final

from gapless.capture.tables.kind import TableKind
from gapless.capture.view import CaptureView
from gapless.model.tables import Tables

TABLES: Final[Mapping[str, TableKind]] = {
    name: import_module(f"{__name__}.{name}").TABLE for name in Tables.__struct_fields__
}


def build_tables(view: CaptureView, *, by_shape: bool) -> Tables:
    """Build all tables of one capture."""
    with ThreadPoolExecutor(2) as pool:  # NumPy lets the other thread run meanwhile
        builds = {
            name: pool.submit(TABLES[name].build, view, by_shape)
            for name in sorted(TABLES, key=lambda name: name != "lines")  # they take longest
        }
    rows: dict[str, Any] = {name: build.result() for name, build in builds.items()}
    return Tables(**rows)


def merge_tables(rank_tables: Sequence[Tables]) -> Tables:
    """Add up the tables of several ranks, each sorted again."""
    rows: dict[str, Any] = {
        name: table.merge(getattr(tables, name) for tables in rank_tables)
        for name, table in TABLES.items()
    }
    return Tables(**rows)
