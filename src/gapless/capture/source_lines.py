"""Which line of source an event belongs to, in a trace that was recorded with stacks."""

import re
import sys
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.host.nesting import find_innermost
from gapless.model import category
from gapless.model.trace import Int64, Trace

_FUNCTION: Final = re.compile(
    r"^(?P<file>[^(].*)\((?P<line>\d{1,9})\): (?P<function>.+)$", re.DOTALL
)
WRAPPER: Final = "<gapless:importlib_bootstrap>"  # what calls a function of torch's, in its place
_RECORDER: Final = re.compile(  # what records, in the user's process
    r"(^|[/\\])gapless[/\\](payload[/\\]|wire\.py$)|^<gapless:"
)
_OPERATORS: Final = re.compile(  # Python of torch's around operators
    r"(^|[/\\])torch[/\\](functional|_jit_internal|_tensor|nn[/\\]functional|nn[/\\]utils[/\\]rnn)\.py$"
)
_LIBRARY: Final = re.compile(r"^<|site-packages[/\\]|dist-packages[/\\]|[/\\]lib[/\\]python\d")
_MAX_FILES: Final = 10_000  # whose kind is kept: stacks name the same ones again and again
_PACKAGES: Final = frozenset(
    {"torch", "torchvision", "torchaudio", "torchdata", "triton", "numpy", "PIL", "transformers"}
    | {"accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "deepspeed", "timm"}
)


class Stacks(Struct, frozen=True):
    """The Python functions that have a line of source."""

    frames: Int64  # events
    locations: dict[int, tuple[str, int, str]]  # name → file, line, function
    # names of functions that are neither of the standard nor of a known library
    user_names: frozenset[int]

    def frames_around(self, trace: Trace, rows: Int64) -> Int64:
        """Return for each event the position in ``frames`` of the innermost function around it, −1.

        The user's own functions come first: the innermost of them, and only else the innermost of
        all.
        """
        is_user = np.isin(trace.events.name[self.frames], list(self.user_names))
        user_frames = _innermost_frames(trace, np.flatnonzero(is_user), self.frames, rows)
        return np.where(user_frames >= 0, user_frames, self.innermost_frames(trace, rows))

    def innermost_frames(self, trace: Trace, rows: Int64) -> Int64:
        """Return for each event the position in ``frames`` of the innermost around it, −1."""
        return _innermost_frames(trace, np.arange(len(self.frames)), self.frames, rows)

    def calling_frames(self, trace: Trace, rows: Int64) -> Int64:
        """Return the same, where functions of torch's that are operators are none."""
        operators = [name for name, place in self.locations.items() if _OPERATORS.search(place[0])]
        is_calling = ~np.isin(trace.events.name[self.frames], operators)
        return _innermost_frames(trace, np.flatnonzero(is_calling), self.frames, rows)


def stacks(trace: Trace) -> Stacks:
    """Find the Python functions of a trace."""
    events = trace.events
    rows = np.flatnonzero(events.category == category.PYTHON_FUNCTION)
    rows = rows[events.end[rows] > events.start[rows]]
    locations: dict[int, tuple[str, int, str]] = {}
    distinct: list[int] = np.unique(events.name[rows]).tolist()
    for name in distinct:
        match = _FUNCTION.match(trace.names[name])
        if match:
            locations[name] = (match["file"], int(match["line"]), match["function"])
    has_location = np.isin(events.name[rows], list(locations))
    user_names = frozenset(name for name, (file, _, _) in locations.items() if not is_library(file))
    return Stacks(rows[has_location], locations, user_names)


def is_recorder(file: str) -> bool:
    """Return whether a file is of gapless's own recorder."""
    return bool(_RECORDER.search(file))


@lru_cache(_MAX_FILES)
def is_library(file: str) -> bool:
    """Return whether a file is of the standard library or of a package that users do not edit."""
    head = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return (
        is_recorder(file)
        or bool(_LIBRARY.search(file))
        or head in _PACKAGES
        or head in sys.stdlib_module_names
    )


@lru_cache(_MAX_FILES)
def package_of(file: str) -> str | None:
    """Return the package or standard module that a file is of; None: it is a user's."""
    parts = re.split(r"[/\\]", file)
    if is_recorder(file):
        return "gapless"
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            return parts[len(parts) - parts[::-1].index(folder)].removesuffix(".py")
    if not is_library(file) or file.startswith("<"):
        return None
    heads = [part_name for part_name in parts if re.fullmatch(r"python\d[\d.]*", part_name)]
    head = parts[parts.index(heads[-1]) + 1] if heads and parts[-1] != heads[-1] else parts[0]
    return head.removesuffix(".py")


def _innermost_frames(trace: Trace, candidates: Int64, frames: Int64, rows: Int64) -> Int64:
    events = trace.events
    positions = np.full(len(rows), -1, np.int64)
    tracks = events.track[frames[candidates]]
    for track in np.unique(tracks).tolist():
        track_rows = np.flatnonzero(events.track[rows] == track)
        track_frames = candidates[tracks == track]
        inner = find_innermost(
            events.start[frames[track_frames]],
            events.end[frames[track_frames]],
            events.start[rows[track_rows]],
        )
        positions[track_rows] = np.where(inner >= 0, track_frames[inner], -1)
    return positions
