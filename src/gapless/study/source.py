"""Which line of source an event belongs to, in a trace that was recorded with stacks."""

import re
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.nesting import innermost
from gapless.model import category
from gapless.model.trace import Int64, Trace

_FUNCTION: Final = re.compile(
    r"^(?P<file>[^(].*)\((?P<line>\d{1,9})\): (?P<function>.+)$", re.DOTALL
)
WRAPPER: Final = "<gapless:importlib_bootstrap>"  # what calls a function of torch's, in its place
_OWN: Final = re.compile(  # what records, in the user's process
    r"(^|[/\\])gapless[/\\](payload[/\\]|wire\.py$)|^<gapless:"
)
_LIBRARY: Final = re.compile(r"^<|site-packages[/\\]|dist-packages[/\\]|[/\\]lib[/\\]python\d")
_PACKAGES: Final = frozenset(
    {"torch", "torchvision", "torchaudio", "torchdata", "triton", "numpy", "PIL", "transformers"}
    | {"accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "deepspeed", "timm"}
)


@dataclass(frozen=True)
class Stacks:
    """The Python functions that have a line of source."""

    frames: Int64  # events
    places: dict[int, tuple[str, int, str]]  # name → file, line, function
    own: frozenset[
        int
    ]  # names of functions that are neither of the standard nor of a known library

    def around(self, trace: Trace, rows: Int64) -> Int64:
        """Give for each event the position in ``frames`` of the innermost function around it, −1.

        The user's own functions come first: the innermost of them, and only else the innermost of
        all.
        """
        mine = np.isin(trace.events.name[self.frames], list(self.own))
        first = _around(trace, np.flatnonzero(mine), self.frames, rows)
        return np.where(first >= 0, first, _around(trace, np.arange(len(mine)), self.frames, rows))


def stacks(trace: Trace) -> Stacks:
    """Find the Python functions of a trace."""
    events = trace.events
    rows = np.flatnonzero(events.category == category.PYTHON_FUNCTION)
    rows = rows[events.end[rows] > events.start[rows]]
    places: dict[int, tuple[str, int, str]] = {}
    distinct: list[int] = np.unique(events.name[rows]).tolist()
    for name in distinct:
        found = _FUNCTION.match(trace.names[name])
        if found:
            places[name] = (found["file"], int(found["line"]), found["function"])
    named = np.isin(events.name[rows], list(places))
    own = frozenset(name for name, (file, _, _) in places.items() if not is_library(file))
    return Stacks(rows[named], places, own)


def is_recorder(file: str) -> bool:
    """Tell whether a file is of gapless's own recorder."""
    return bool(_OWN.search(file))


def is_library(file: str) -> bool:
    """Tell whether a file is of the standard library or of a package that users do not edit."""
    head = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return (
        is_recorder(file)
        or bool(_LIBRARY.search(file))
        or head in _PACKAGES
        or head in sys.stdlib_module_names
    )


def package(file: str) -> str | None:
    """Name the package or standard module that a file is of; None: it is a user's."""
    parts = re.split(r"[/\\]", file)
    if is_recorder(file):
        return "gapless"
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            return parts[len(parts) - parts[::-1].index(folder)].removesuffix(".py")
    if not is_library(file) or file.startswith("<"):
        return None
    heads = [one for one in parts if re.fullmatch(r"python\d[\d.]*", one)]
    head = parts[parts.index(heads[-1]) + 1] if heads and parts[-1] != heads[-1] else parts[0]
    return head.removesuffix(".py")


def _around(trace: Trace, able: Int64, frames: Int64, rows: Int64) -> Int64:
    events = trace.events
    found = np.full(len(rows), -1, np.int64)
    track = events.track[frames[able]]
    for one in np.unique(track).tolist():
        here = np.flatnonzero(events.track[rows] == one)
        mine = able[track == one]
        inner = innermost(
            events.start[frames[mine]], events.end[frames[mine]], events.start[rows[here]]
        )
        found[here] = np.where(inner >= 0, mine[inner], -1)
    return found
