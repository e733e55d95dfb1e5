"""Bytes by key, each in a file of its own below a folder, as far as its disk has room."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import zlib
from typing import Any

_SUM_BYTES = 4
_SHARE = 2  # of what is free: a half is taken at most
_END_MARK = "ended"  # a file that says so


class DiskStore:
    """Records below a folder, which may be there from an earlier run."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.reserve = shutil.disk_usage(self.folder).free // _SHARE
        self._ended = os.path.join(self.folder, _END_MARK)
        self._is_full = False
        self.n_kept = 0  # by this process

    def get(self, key: bytes) -> Any:
        """Return the bytes of a key; None: there are none, or they are not whole."""
        try:
            with open(self._path(key), "rb") as file:
                data = file.read()
        except OSError:
            return None
        body = memoryview(data)[_SUM_BYTES:]
        return body if data[:_SUM_BYTES] == _sum(body) else None

    def put(self, key: bytes, data: Any) -> bool:
        """Keep bytes; return whether there was room."""
        if self._is_full or self.is_ended():
            return False
        path = self._path(key)
        try:
            if shutil.disk_usage(self.folder).free < self.reserve + len(data):
                self._is_full = True
                return False
            os.makedirs(os.path.dirname(path), exist_ok=True)
            number, name = tempfile.mkstemp(dir=os.path.dirname(path))
        except OSError:
            self._is_full = True
            return False
        try:
            with open(number, "wb") as file:
                file.write(_sum(data))
                file.write(data)
            os.replace(name, path)
        except OSError:
            self._is_full = True
            with contextlib.suppress(OSError):
                os.unlink(name)
        self.n_kept += not self._is_full
        return not self._is_full

    def end(self) -> None:
        """Keep nothing any more, and give nothing, in any process and any later run."""
        with contextlib.suppress(OSError), open(self._ended, "wb"):
            pass

    def is_ended(self) -> bool:
        """Return whether some process ended it."""
        return os.path.exists(self._ended)

    def _path(self, key: bytes) -> str:
        name = hashlib.blake2b(key, digest_size=16).hexdigest()
        return os.path.join(self.folder, name[:2], name[2:])


def _sum(data: Any) -> bytes:
    return zlib.crc32(data).to_bytes(_SUM_BYTES, "little")
