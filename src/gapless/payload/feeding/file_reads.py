"""Files read by themselves: their bytes alone, from memory and from where they lie."""

from __future__ import annotations

import importlib
import os
from time import monotonic_ns
from typing import Any

WARM, COLD = "bytes alone, warm", "bytes alone, cold"


def _probe() -> Any:
    """Return the probe's own way of reading; it is beside the payload, whatever both are called."""
    return importlib.import_module("...probe.data_files", __package__)


def time_reads(files: list[str]) -> int:
    """Return the ns that one reader takes for whole files."""
    probe = _probe()
    pieces = [probe.FilePiece(path, 0, os.stat(path).st_size) for path in files]
    start = monotonic_ns()
    for piece in pieces:
        probe.read_piece(piece)
    return monotonic_ns() - start


def drop(files: list[str]) -> str | None:
    """Drop files from memory; return why that cannot be, for some of them."""
    probe = _probe()
    stays = 0
    for path in files:
        size = os.stat(path).st_size
        if size and not probe.drop_piece(probe.FilePiece(path, 0, size)):
            stays += 1
    if not stays:
        return None
    return f"the kernel keeps {stays} of {len(files)} files in memory (mapped, or in memory alone)"
