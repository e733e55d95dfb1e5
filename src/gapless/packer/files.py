"""Files that are written: down to the disk, or left."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any


def write_file(path: str, content: bytes) -> None:
    """Write a file, down to the disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def close_file(file: Any) -> None:
    """Write what is left, down to the disk, and close a file."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def drop_file(file: Any) -> None:
    """Close a file, on a disk that takes no more."""
    with suppress(OSError, ValueError):
        file.close()
