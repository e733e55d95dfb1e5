"""What the files of a folder declare."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def declared_in(package: ModuleType, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the values of a kind that modules of a package hold, alone or as rows of a table.

    Each module has at least one.
    """
    for info in walk_packages(package.__path__, f"{package.__name__}."):
        if info.ispkg:
            continue
        values: list[Any] = list(vars(import_module(info.name)).values())
        rows = [row for value in values if isinstance(value, tuple) for row in _items(value)]
        declared = [value for value in (*values, *rows) if isinstance(value, kind)]
        assert declared, f"{info.name} declares none"
        yield from declared


def _items(row: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a tuple of anything
    return row
