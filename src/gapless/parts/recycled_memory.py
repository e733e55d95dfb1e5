"""Shared memory that a worker uses again once the training has let go of what was in it."""

from __future__ import annotations

import ctypes
import functools
import os
import secrets
import weakref
from typing import Any, Callable

import torch

_HEADER = 64  # bytes before what a piece of memory holds: its flags
_STATE, _OPENED = 0, 1  # which flag is where
_FREE, _IN_USE, _LOST = 0, 1, 2  # lost: a child of the training may still see it

MAX_TENSORS = 8  # of a batch that have pieces of their own: each takes a file descriptor
_MAX_WASTE = 4  # times the size of a tensor a piece may be
_SIZE_BITS = 4  # sizes of pieces are rounded up to so many leading bits

_opened: dict[tuple[int, str], dict[int, Any]] = {}  # by ring: storages by the piece's number
_fork_count = [0]  # of this process, as a parent


class MemoryPiece:
    """Shared memory for one tensor or array of a batch, with the flags of who uses it."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self.storage: Any = torch.UntypedStorage._new_shared(_HEADER + size)  # noqa: SLF001
        self.flags = _flags(self.storage)
        self._lease: Callable[[], Any] = lambda: None  # what the worker's tensor is in

    def lend(self) -> Any:
        """Return the memory for a tensor of the worker's: it is in use as long as that is there."""
        lease = _make_lease(self.storage, self.size)
        self._lease = weakref.ref(lease)
        return lease

    @property
    def address(self) -> int:
        """Return where its contents begin."""
        return self.storage.data_ptr() + _HEADER

    def describe(self) -> tuple[int, int, Any]:
        """Return what ``open_piece`` needs; the memory itself until the training has opened it."""
        return self.number, self.size, None if self.flags[_OPENED] else self.storage

    def state(self) -> int:
        """Return whether it is free, in use, or lost."""
        is_lent = self.flags[_STATE] == _FREE and self._lease() is not None
        return _IN_USE if is_lent else self.flags[_STATE]

    def take(self) -> None:
        """Use it for what is sent now."""
        self.flags[_STATE] = _IN_USE

    def give_back(self) -> None:
        """Nothing was sent in it: it is free once the worker's own tensor is gone."""
        self.flags[_STATE] = _FREE


class PieceRing:
    """The pieces of one worker."""

    def __init__(self, max_batches: int) -> None:
        self.token = os.getpid(), secrets.token_hex(8)
        self.max_batches, self.count = max_batches, 0
        self.pieces: list[MemoryPiece] = []  # the one that was taken longest ago first
        self.dropped: list[int] = []  # numbers, until the training has been told
        self.n_taken, self.max_taken = 0, 0  # for one batch

    def begin_batch(self) -> None:
        """Begin another batch."""
        self.n_taken = 0

    def claim(self, size: int) -> MemoryPiece | None:
        """Return a piece of at least this size that nobody uses; None: the batch has enough.

        A new one, where there is none; the one that was taken longest ago is let go, if there are
        too many.
        """
        if self.n_taken >= MAX_TENSORS:
            return None
        self.n_taken += 1
        self.max_taken = max(self.max_taken, self.n_taken)
        for piece in [piece for piece in self.pieces if piece.state() == _LOST]:
            self._drop(piece)
        free_pieces = [piece for piece in self.pieces if piece.state() == _FREE]
        fitting = [piece for piece in free_pieces if size <= piece.size <= _MAX_WASTE * size]
        if fitting:
            piece = min(fitting, key=lambda candidate: candidate.size)
            self.pieces.remove(piece)
        else:
            if len(self.pieces) >= self.max_batches * self.max_taken:
                self._drop([*free_pieces, *self.pieces][0])
            piece = MemoryPiece(self.count, _round_up(size))
            self.count += 1
        self.pieces.append(piece)
        piece.take()
        return piece

    def _drop(self, piece: MemoryPiece) -> None:
        self.pieces.remove(piece)
        self.dropped.append(piece.number)


def open_piece(token: Any, description: Any) -> Any:
    """Return the contents of a piece that a worker has sent, in the training.

    The worker may use it again when nothing refers to them any more.
    """
    number, size, storage = description
    if token not in _opened:
        _close_pieces_of_dead_workers()
    pieces = _opened.setdefault(token, {})
    if storage is not None:
        pieces.setdefault(number, storage)
    lease = _make_lease(pieces[number], size)
    lease.flags = _flags(pieces[number])
    lease.flags[_OPENED] = 1
    lease.owner = os.getpid(), _fork_count[0]
    return lease


def close_pieces(token: Any, numbers: list[int]) -> None:
    """Keep pieces no longer that will not come any more."""
    for number in numbers:
        _opened.get(token, {}).pop(number, None)


def _close_pieces_of_dead_workers() -> None:
    """Let go of what workers had that are no more: all that they sent has come, or will not."""
    for token in [token for token in _opened if not _is_alive(token[0])]:
        _opened.pop(token, None)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # there is one, of somebody else
        return True
    return True


def _flags(storage: Any) -> Any:
    return (ctypes.c_ubyte * 2).from_address(storage.data_ptr())


def _make_lease(storage: Any, size: int) -> Any:
    """Return the memory of a piece as what tensors are made of, which all of them hold."""
    lease = _lease_class(size).from_address(storage.data_ptr() + _HEADER)
    lease.storage = storage
    return lease


@functools.lru_cache(maxsize=64)
def _lease_class(size: int) -> Any:
    return type("_Lease", (ctypes.c_char * size,), {"flags": None, "__del__": _end_lease})


def _end_lease(lease: Any, getpid: Callable[[], int] = os.getpid) -> None:
    """Let the worker have the piece again: nothing refers to its batch any more.

    Not in a child that was forked meanwhile; and what such a child has is not used again.
    """
    if lease.flags is not None and lease.owner[0] == getpid():
        is_forked = lease.owner[1] != _fork_count[0]
        lease.flags[_STATE] = _LOST if is_forked else _FREE


def _count_fork() -> None:
    _fork_count[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_count_fork)


def _round_up(size: int) -> int:
    """Return a size that batches which differ a little have in common."""
    grain = 1 << max(12, size.bit_length() - _SIZE_BITS)
    return -(-size // grain) * grain
