"""A hash of all that conclusions are made with, so that a figure says of which rules it is."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.judging.records import ROOT

_SOURCE: Final = ROOT / "src" / "gapless"
_ROOMS: Final = (
    "accounting",
    "capture",
    "catalogue",
    "pricing",
    "recorded",
    "replay",
    "roofline",
    "study",
)
_RESIDUALS: Final = "residuals.json"  # what the benchmark itself writes


def thresholds_hash(rooms: Iterable[str] = _ROOMS, source: Path = _SOURCE) -> str:
    """Return the hash of every source of the rooms that account, replay, diagnose and price."""
    digest = hashlib.sha256()
    for path in sorted(path for room in rooms for path in (source / room).rglob("*.py")):
        digest.update(path.relative_to(source).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def judge_hash(folder: Path = Path(__file__).parent) -> str:
    """Return the hash of what answers are judged with: the words for causes, the metrics."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def residuals_hash(source: Path = _SOURCE) -> str:
    """Return the hash of the residuals that intervals are stretched by."""
    return hashlib.sha256((source / "replay" / _RESIDUALS).read_bytes()).hexdigest()[:16]
