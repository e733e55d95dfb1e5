"""Bytes by key, in memory that the workers of a loader share, as far as memory is free."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import multiprocessing
import os
import tempfile
import weakref
from typing import Any

_KEY_BYTES = 16
_HEAD_BYTES = _KEY_BYTES + 8  # of a record: its key, and its length
_WORD = 8  # bytes: records begin at a multiple of it
_MAX_PROBES = 16  # slots that are looked at for a key
_MIN_SLOTS = 1 << 10
_LOOK_EVERY = 32  # records, at what memory is free now
_SHARE = 2  # of what is free: a half is taken at most
_MEMINFO = "/proc/meminfo"
NOT_SHARED = "its workers are not forked: they share no memory"
_CGROUP_FILES = (  # of a limit: what it is, what is used, and what of that can be given back
    tuple(f"/sys/fs/cgroup/memory.{name}" for name in ("max", "current", "stat")),
    tuple(
        f"/sys/fs/cgroup/memory/memory.{name}"
        for name in ("limit_in_bytes", "usage_in_bytes", "stat")
    ),
)


class MemoryStore:
    """Records that forked processes share. It is gone with the last of them.

    ``writers``: the processes that write at a time. Each has a part of the memory for itself while
    it lives, by a lock of the system's that ends with it: none waits for another. A slot says where
    a record begins; what stands there is believed if it begins with the key.
    """

    def __init__(self, records: int, writers: int, room: int | None = None) -> None:
        self.room = _find_share() if room is None else room  # bytes
        self.n_slots = max(_MIN_SLOTS, 1 << (2 * records).bit_length())
        self.writers = max(1, writers)
        self._n_words = 1 + self.writers + self.n_slots
        self._part = self.room // self.writers // _WORD * _WORD
        try:
            self._memory = mmap.mmap(-1, self._n_words * _WORD + self._part * self.writers)
        except OSError:  # the system promises no more than it has
            self._part = 0
            self._memory = mmap.mmap(-1, self._n_words * _WORD)
        self._bytes = memoryview(self._memory)
        self._words = self._bytes[: self._n_words * _WORD].cast("q")  # is it ended, ends, slots
        self._locks, path = tempfile.mkstemp()
        os.unlink(path)
        weakref.finalize(self, os.close, self._locks)
        self._writer = self._process = -1  # whose part this process writes to, and this process
        self._count = self.n_kept = 0  # records of this process: asked for, and kept

    def __reduce__(self) -> Any:
        """Refuse: memory is shared with what is forked."""
        raise TypeError("a store in memory is shared with forked workers alone")

    def get(self, key: bytes) -> Any:
        """Return the bytes of a key, which nobody may write to; None: there are none."""
        digest = _digest(key)
        for slot in self._slots(digest):
            start = self._words[slot] - 1
            if start < 0:
                return None
            begin = start + _HEAD_BYTES
            if bytes(self._bytes[start : start + _KEY_BYTES]) == digest:
                length = int.from_bytes(self._bytes[start + _KEY_BYTES : begin], "little")
                return self._bytes[begin : begin + length]
        return None

    def put(self, key: bytes, data: Any) -> bool:
        """Keep bytes; return whether there was room."""
        size = _HEAD_BYTES + len(data)
        size += -size % _WORD
        if self._words[0] or not self._is_writer() or not self._has_room():
            return False
        end = 1 + self._writer
        used = self._words[end]
        if used + size > self._part:
            return False
        digest = _digest(key)
        empty = [slot for slot in self._slots(digest) if not self._words[slot]]
        if not empty:
            return False
        start = self._n_words * _WORD + self._writer * self._part + used
        head = digest + len(data).to_bytes(_WORD, "little")
        self._bytes[start : start + _HEAD_BYTES] = head
        self._bytes[start + _HEAD_BYTES : start + _HEAD_BYTES + len(data)] = data
        self._words[end] = used + size
        self._words[empty[0]] = start + 1
        self.n_kept += 1
        return True

    def end(self) -> None:
        """Keep nothing any more, and give nothing, in any process."""
        self._words[0] = 1

    def unmap(self) -> None:
        """Let this process find every page again, as one does that has just been started."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._memory.madvise(mmap.MADV_DONTNEED)

    def is_ended(self) -> bool:
        """Return whether some process ended it."""
        return bool(self._words[0])

    def _slots(self, digest: bytes) -> range:
        first = int.from_bytes(digest[:_WORD], "little") % (self.n_slots - _MAX_PROBES)
        start = 1 + self.writers + first
        return range(start, start + _MAX_PROBES)

    def _is_writer(self) -> bool:
        """Take a part of the memory that nobody writes to, if this process has none yet."""
        if self._process != os.getpid():  # it was forked: locks are not
            self._writer, self._process = -1, os.getpid()
        for writer in range(self.writers) if self._writer < 0 else ():
            try:
                fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, writer)
            except OSError:
                continue
            self._writer = writer
            break
        return self._writer >= 0

    def _has_room(self) -> bool:
        """Look, now and then, whether others left memory: a part of what was free stays free."""
        self._count += 1
        if self._count % _LOOK_EVERY == 0 and find_free_memory() < self.room // _SHARE:
            self._part = 0
        return self._part > 0


def shares_memory(loader: Any) -> bool:
    """Return whether the workers of a ``DataLoader`` are forked, or are none."""
    context = loader.multiprocessing_context or multiprocessing
    method = context.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return not loader.num_workers or method == "fork"


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()


def _find_share() -> int:
    """Return a half of the memory that is free, shared with the other ranks of this machine."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return find_free_memory() // _SHARE // max(1, int(ranks) if ranks.isdecimal() else 1)


def find_free_memory() -> int:
    """Return the bytes that this process could use more, as the system sees it; 0: not known."""
    try:
        with open(_MEMINFO, encoding="ascii") as file:
            values = dict(line.split(":") for line in file)
        free = int(values["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return 0
    limit = _find_group_room()
    return free if limit is None else min(free, limit)


def _find_group_room() -> int | None:
    """Return what the limit of a container leaves; None: there is no limit to be seen."""
    for files in _CGROUP_FILES:
        if os.path.exists(files[0]):
            return _read_group_room(*files)
    return None


def _read_group_room(limit: str, used: str, stat: str) -> int | None:
    try:
        with open(limit, encoding="ascii") as limit_file, open(used, encoding="ascii") as used_file:
            room = int(limit_file.read()) - int(used_file.read())
        with open(stat, encoding="ascii") as file:
            cached = dict(line.split() for line in file)
        return max(0, room + int(cached.get("inactive_file", 0)))
    except (OSError, ValueError):  # it cannot be read, or is "max"
        return None
