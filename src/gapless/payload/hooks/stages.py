"""The stages of making a sample: functions of libraries are timed while a fetch is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import declare, imports, patching, recorder, tracebacks
from ..loading.stage_table import TABLE
from ..loading.stopwatch import FunctionProxy, time_function
from ..process_state import keep_fields
from . import files

if TYPE_CHECKING:
    from collections.abc import Iterator
# By id of an original: itself and what stands in for it.
_timed = keep_fields(proxies={})


@declare.at_install
def _watch() -> None:
    """Time the functions of the table, each when its module is imported."""
    rows: dict[str, list[tuple[str, int]]] = {}
    for module, paths, stage in TABLE:
        rows.setdefault(module, []).extend((path, stage) for path in paths.split())
    for module, functions in rows.items():
        imports.when_imported(module, lambda imported, wanted=functions: apply(imported, wanted))


def apply(module: Any, rows: list[tuple[str, int]]) -> None:
    """Time those functions of a module that it has."""
    for path, stage in rows:
        for owner, name in _find_owners(module, path.rstrip("!?")):
            _try(owner, name, stage, path)


def _try(owner: Any, name: str, stage: int, path: str) -> None:
    try:
        _replace(owner, name, stage, path)
    except Exception as error:  # a class in C that cannot be changed
        if tracebacks.from_a_signal_handler(error):
            raise
        recorder.report_unobserved(
            f"stage of {getattr(owner, '__name__', owner)}.{name}", repr(error)
        )


def _find_owners(module: Any, path: str) -> Iterator[tuple[Any, str]]:
    holder, _, name = path.rpartition(".")
    if holder == "*":
        owners = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
    else:
        owners = [module if not holder else vars(module).get(holder)]
    return ((owner, name) for owner in owners if owner is not None and name in vars(owner))


def _replace(owner: Any, name: str, stage: int, path: str) -> None:
    original = vars(owner)[name]
    if not callable(original) or isinstance(
        original, (type, staticmethod, classmethod, FunctionProxy)
    ):
        return
    pair = _timed.proxies.get(id(original))
    if pair is None:
        observe = files.note_first_argument if path.endswith("!") else None
        proxy = time_function(original, stage, weak=path.endswith("?"), observe=observe)
        _timed.proxies[id(original)] = (original, proxy)
        _timed.proxies[id(proxy)] = (
            proxy,
            proxy,
        )  # found again where another module has it by import
    elif pair[0] is pair[1]:
        return
    else:
        proxy = pair[1]
    patching.replace(owner, name, lambda _original, proxy=proxy: proxy)
