"""Let workers of a DataLoader write batches into shared memory that is used again."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import math
import os
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Callable

import torch

from .recycled_memory import PieceRing, close_pieces, open_piece

if TYPE_CHECKING:
    from collections.abc import Generator

_MIN_SHARED = 1 << 16  # bytes: what is smaller is sent along with the batch
_MAX_FRAMES = 16  # between a collate function and the loop of its worker
_MAX_BATCHES = 8  # of a worker, unless batches are made further ahead
_AHEAD = 2  # torch's own prefetch_factor

_is_sending = [False]  # this worker collates: what is collated within that is no batch


def recycle_batches(loader: Any) -> Any:
    """Let the workers of a ``DataLoader`` hand batches over in recycled memory; return the loader.

    ``loader = recycle_batches(DataLoader(…, num_workers=8))`` sets its ``collate_fn`` to
    ``RecycledCollate(collate_fn)``, before it is iterated for the first time.
    """
    collate_fn = getattr(loader, "collate_fn", None)
    if collate_fn is not None and type(collate_fn).__name__ != RecycledCollate.__name__:
        n_ahead = getattr(loader, "prefetch_factor", None) or _AHEAD
        loader.collate_fn = RecycledCollate(collate_fn, max(_MAX_BATCHES, n_ahead + 4))
    return loader


class RecycledCollate:
    """A collate function whose batches come from workers in shared memory that is used again.

    ``collate_fn``: the function that makes batches; torch's own if not given. ``max_batches``: how
    many batches a worker may have on their way, or in use, without asking for new memory.

    **Why.** A worker asks the system for new shared memory for each tensor of each batch. The
    system has to clear every page of it, which takes longer than to copy the batch; and NumPy
    arrays are copied through a pipe.

    **What is sent that way.** Tensors and NumPy arrays of 64 KiB and more, in whatever containers
    they are: the first eight of a batch. Tensors that torch's own ``default_collate`` stacks are
    stacked right there. Smaller ones come along with the batch. Everything else (sparse tensors,
    tensors in shared memory, such as need a gradient, subclasses) is sent as ever.

    **When memory is used again.** A piece holds one tensor. It is used again once nothing in the
    training refers to it: views, slices and ``numpy()`` count. What is kept is never overwritten:
    if all pieces are in use, new memory is taken. What a fork of the training may still see is not
    overwritten, either.

    **What stays the same.** Values, types, order; a loader without workers, and every attribute of
    the collate function. **What differs.** ``tensor.is_shared()`` is ``False``; who sends a batch
    on to another process sends a copy. A worker keeps the memory of its pieces until it ends.
    """

    def __init__(
        self, collate_fn: Callable[[Any], Any] | None = None, max_batches: int = _MAX_BATCHES
    ) -> None:
        self.collate_fn, self.max_batches = collate_fn, max_batches
        self._ring: Any = None

    def __call__(self, samples: Any) -> Any:
        """Return the batch of these samples; in a worker, what becomes the batch when it comes."""
        if _is_sending[0] or not _is_called_by_worker():
            return (self.collate_fn or torch.utils.data.default_collate)(samples)
        return self.send(samples)

    def send(self, samples: Any) -> Any:
        """Return the batch of these samples as a worker, which this process is, sends it."""
        if self._ring is None or self._ring.token[0] != os.getpid():
            self._ring = PieceRing(self.max_batches)
        return _send(self._ring, self.collate_fn or torch.utils.data.default_collate, samples)

    def __getattr__(self, name: str) -> Any:
        """Return the collate function's attribute."""
        if name.startswith("_") or name in ("collate_fn", "max_batches"):
            raise AttributeError(name)
        return getattr(self.collate_fn, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the memory."""
        return type(self), (self.collate_fn, self.max_batches)


# ── In the worker ───────────────────────────────────────────────────────────────────────────────


def _is_called_by_worker() -> bool:
    """Return whether what is collated is sent by a worker; no, if a loader inside it asks."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 - nothing else says who asks
    for _ in range(_MAX_FRAMES):
        if frame is None or frame.f_code.co_name == "_next_data":
            return False
        if frame.f_code.co_name == "_worker_loop":
            return os.name == "posix" and hasattr(torch.Tensor, "untyped_storage")
        frame = frame.f_back
    return False


def _send(ring: PieceRing, collate: Callable[[Any], Any], samples: Any) -> Any:
    """Return the batch of these samples as a worker sends it."""
    writer, batch = _BatchWriter(ring), None
    _is_sending[0] = True
    try:
        with writer.stacking():
            batch = collate(samples)
        data = writer.describe(batch)
        sent = SentBatch(ring.token, data, writer.hand_over(), ring.dropped)
        ring.dropped = []
    except (pickle.PicklingError, TypeError, AttributeError):
        if not writer.is_collated:
            raise
        return batch  # torch says in its own words what cannot be sent
    finally:
        _is_sending[0] = False
        writer.give_back()
    return sent


class _BatchWriter:
    """What of one batch goes into shared memory, and where."""

    def __init__(self, ring: PieceRing) -> None:
        ring.begin_batch()
        self.ring = ring
        self.is_collated = False
        self.claimed: dict[int, Any] = {}  # pieces by their address, until they are to be sent
        self.blocks: list[Any] = []  # pieces, and bytes of what is small
        self.numbers: dict[int, int] = {}  # of blocks, by address
        self.values: dict[int, tuple[int, Any]] = {}  # by id: the number of a value, and itself

    @contextlib.contextmanager
    def stacking(self) -> Generator[None, None, None]:
        """Let torch's ``default_collate`` stack into pieces meanwhile."""
        functions = sys.modules["torch.utils.data._utils.collate"].default_collate_fn_map
        before = functions[torch.Tensor]
        functions[torch.Tensor] = functools.partial(self._stack, before)
        try:
            yield
            self.is_collated = True
        finally:
            functions[torch.Tensor] = before

    def _stack(self, before: Any, tensors: Any, *, collate_fn_map: Any = None) -> Any:
        first = tensors[0]
        if not all(_is_alike(tensor, first) for tensor in tensors):
            return before(tensors, collate_fn_map=collate_fn_map)
        count = first.numel() * len(tensors)
        piece = self._claim(count * first.element_size())
        if piece is None:
            return torch.stack(tuple(tensors), 0)
        memory = torch.frombuffer(piece.lend(), dtype=first.dtype, count=count)
        out: Any = torch.empty(0, dtype=first.dtype)
        out.set_(memory.untyped_storage(), 0, (len(tensors), *first.size()))
        return torch.stack(tuple(tensors), 0, out=out)

    def _claim(self, size: int) -> Any:
        piece = self.ring.claim(size) if size >= _MIN_SHARED else None
        if piece is not None:
            self.claimed[piece.address] = piece
        return piece

    def describe(self, batch: Any) -> bytes:
        """Return the batch pickled, without what goes into shared memory."""
        file = io.BytesIO()
        _BatchPickler(file, self).dump(batch)
        return file.getvalue()

    def name_tensor(self, tensor: Any) -> Any:
        """Return what stands for a tensor; None: it is sent as ever."""
        if id(tensor) in self.values:
            return self._name(tensor, None)
        if not _is_plain(tensor):
            return None
        storage = tensor.untyped_storage()
        if not storage.nbytes() or storage.is_shared():
            return None
        address = storage.data_ptr()
        block = self.numbers.get(address)
        if block is None:
            block = self._add_block(address, storage.nbytes())
        if block is None:
            return None
        self.numbers[address] = block
        shape = tensor.storage_offset(), tuple(tensor.size()), tensor.stride()
        return self._name(tensor, (block, tensor.dtype, shape, storage.nbytes()))

    def name_array(self, array: Any) -> Any:
        """Return what stands for a NumPy array; None: it is sent as ever."""
        if id(array) in self.values:
            return self._name(array, None)
        if array.nbytes < _MIN_SHARED or array.dtype.hasobject or not array.flags.c_contiguous:
            return None
        block = self._add_block(array.__array_interface__["data"][0], array.nbytes)
        return None if block is None else self._name(array, (block, array.dtype, array.shape))

    def _name(self, value: Any, place: Any) -> tuple[int, Any]:
        number, _ = self.values.setdefault(id(value), (len(self.values), value))
        return number, place

    def _add_block(self, address: int, size: int) -> int | None:
        """Return the number of what is there, once it is in a piece; None: there is none for it."""
        if size < _MIN_SHARED:
            block: Any = ctypes.string_at(address, size)
        else:
            block = self.claimed.get(address)
            if block is None:
                block = self._claim(size)
                if block is None:
                    return None
                ctypes.memmove(block.address, address, size)
        self.blocks.append(block)
        return len(self.blocks) - 1

    def hand_over(self) -> list[Any]:
        """Return the blocks, which are sent now."""
        for block in self.blocks:
            if not isinstance(block, bytes):
                self.claimed.pop(block.address)
        return self.blocks

    def give_back(self) -> None:
        """Let the worker have what was claimed and is not sent."""
        for piece in self.claimed.values():
            piece.give_back()


class _BatchPickler(ForkingPickler):
    """Pickle a batch: what goes into shared memory by its number and place."""

    def __init__(self, file: io.BytesIO, writer: _BatchWriter) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.writer = writer

    def persistent_id(self, obj: Any) -> Any:
        """Return what stands for an object; None: it is pickled."""
        kind = type(obj)
        if kind is torch.Tensor:
            return self.writer.name_tensor(obj)
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            return self.writer.name_array(obj)
        return None


class SentBatch:
    """A batch on its way from a worker: when it is unpickled, it is the batch."""

    def __init__(self, token: Any, data: bytes, blocks: list[Any], dropped: list[int]) -> None:
        self.token, self.data, self.blocks, self.dropped = token, data, blocks, dropped

    def give_back(self) -> None:
        """Let the worker have its pieces again: it is not sent after all."""
        for block in self.blocks:
            if not isinstance(block, bytes):
                block.give_back()

    def __reduce__(self) -> tuple[Any, ...]:
        """Send pieces of memory by their numbers."""
        blocks = [block if isinstance(block, bytes) else block.describe() for block in self.blocks]
        return _open_batch, (self.token, self.data, blocks, self.dropped)


# ── In the training ─────────────────────────────────────────────────────────────────────────────


def _open_batch(token: Any, data: bytes, blocks: list[Any], dropped: list[int]) -> Any:
    """Return the batch that a worker has sent."""
    close_pieces(token, dropped)
    memories = [
        bytearray(block) if isinstance(block, bytes) else open_piece(token, block)
        for block in blocks
    ]
    return _BatchUnpickler(io.BytesIO(data), memories).load()


class _BatchUnpickler(pickle.Unpickler):
    """Unpickle a batch: what came beside it is made of its place."""

    def __init__(self, file: io.BytesIO, memories: list[Any]) -> None:
        super().__init__(file)
        self.memories = memories
        self.storages: dict[int, Any] = {}  # by block
        self.values: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        """Return the tensor or array of that number."""
        number, place = pid
        if number not in self.values:
            make = self._make_tensor if isinstance(place[1], torch.dtype) else self._make_array
            self.values[number] = make(*place)
        return self.values[number]

    def _make_tensor(self, block: int, dtype: Any, shape: Any, count: int) -> Any:
        if block not in self.storages:
            memory = torch.frombuffer(self.memories[block], dtype=torch.uint8, count=count)
            self.storages[block] = memory.untyped_storage()
        return torch.empty(0, dtype=dtype).set_(self.storages[block], *shape)

    def _make_array(self, block: int, dtype: Any, shape: Any) -> Any:
        count = math.prod(shape)
        return sys.modules["numpy"].frombuffer(self.memories[block], dtype, count).reshape(shape)


# ── In the worker: which tensors, and where ─────────────────────────────────────────────────────


def _is_plain(tensor: Any) -> bool:
    """Return whether a tensor is bytes in ordinary memory, and nothing else."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_nested)
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _is_alike(tensor: Any, first: Any) -> bool:
    return (
        type(tensor) is torch.Tensor
        and _is_plain(tensor)
        and tensor.dtype == first.dtype
        and tensor.size() == first.size()
    )
