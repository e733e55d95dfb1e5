"""What was trained on: the indices that samplers drew, or checksums of samples.

Of a loader over a map-style data set, a checksum of each batch's indices and how many distinct ones
its iteration has had; of others, a checksum of each sample of the first batches. In the order in
which the batches are handed over. So an edit that repeats or drops samples is seen.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from hashlib import blake2b
from typing import Any

from .. import imports, patching, recorder

MOST_BATCHES = 4_000  # of a loader whose indices are written
MOST_INDICES = 200_000  # of an iteration that are told apart
BYTES = 4096  # of a sample
_WORD = (1 << 64) - 1
_INTEGERS = {int}
_MAP = 0  # torch's _DatasetKind.Map

_iterations: dict[int, _Iteration] = {}  # by id of the iterator
_epochs: dict[int, int] = {}  # by loader
_indices: dict[int, list[Any]] = {}
_samples: dict[int, list[Any]] = {}
_state = {"batches": 0}


class _Iteration:
    """One iterator of a loader."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.drawn: deque[Any] = deque()  # and not handed over yet
        self.epoch = -1
        self.distinct: set[Any] | None = set()


def begin(batches: int) -> None:
    """Look at what loaders hand over; at the samples of the first ``batches`` of each."""
    forget()
    _state["batches"] = batches
    if batches > 0:
        imports.when_imported("torch.utils.data.dataloader", _watch)


def forget() -> None:
    """Know of nothing."""
    for known in (_iterations, _epochs, _indices, _samples):
        known.clear()


def observed() -> dict[str, Any]:
    """Give what was handed over, by loader."""
    return {"indices": dict(_indices), "samples": dict(_samples)}


def _watch(module: Any) -> None:
    iterator, workers = module._BaseDataLoaderIter, module._MultiProcessingDataLoaderIter
    patching.replace(iterator, "_next_index", patching.around("samples", None, _drew))
    patching.replace(iterator, "__next__", patching.around("samples", None, _handed))
    patching.replace(workers, "_reset", patching.around("samples", _began, None))


def _of(iterator: Any) -> _Iteration:
    found = _iterations.get(id(iterator))
    return found if found is not None and found.iterator() is iterator else _new(iterator)


def _new(iterator: Any) -> _Iteration:
    for number, one in list(_iterations.items()):
        if one.iterator() is None:
            _iterations.pop(number, None)
    found = _iterations[id(iterator)] = _Iteration(iterator)
    return found


def _began(args: tuple, _kwargs: dict) -> None:
    """Begin an iteration: of persistent workers the iterator is the one of the last."""
    _new(args[0])


def _drew(_state: Any, args: tuple, index: Any, raised: Any) -> None:
    iterator = args[0]
    if raised is None and iterator._dataset_kind == _MAP:
        _of(iterator).drawn.append(index)


def _handed(_state: Any, args: tuple, batch: Any, raised: Any) -> None:
    iterator = args[0]
    loader = recorder.identify("loader", iterator)
    if raised is not None or loader is None:
        return
    now = _of(iterator)
    if now.epoch < 0:
        now.epoch = _epochs.get(loader, 0)
        _epochs[loader] = now.epoch + 1
    if iterator._dataset_kind == _MAP:
        _note_indices(now, _indices.setdefault(loader, []))
    else:
        _note_samples(now, _samples.setdefault(loader, []), iterator, batch)


def _note_indices(now: _Iteration, told: list[Any]) -> None:
    if not now.drawn or len(told) >= MOST_BATCHES:
        return
    index = now.drawn.popleft()
    batch = tuple(index) if isinstance(index, (list, tuple)) else (index,)
    plain = _INTEGERS.issuperset(map(type, batch))
    sign = hash(batch) & _WORD if plain else _sign(repr(batch).encode())
    if now.distinct is not None:
        now.distinct.update(batch if plain else map(repr, batch))
        if len(now.distinct) > MOST_INDICES:
            now.distinct = None
    seen = None if now.distinct is None else len(now.distinct)
    told.append((now.epoch, f"{sign:016x}", len(batch), seen))


def _note_samples(now: _Iteration, told: list[Any], iterator: Any, batch: Any) -> None:
    if len(told) < _state["batches"]:
        leaf = _first_leaf(batch)
        signs = _signs(leaf, rows=True) if iterator._auto_collation else _signs(leaf, rows=False)
        told.append((now.epoch, [f"{one:016x}" for one in signs]))


def _first_leaf(value: Any) -> Any:
    """Give the first thing in nested containers that is none; a list of strings is one."""
    for _ in range(16):
        if isinstance(value, dict) or hasattr(value, "keys"):
            inner = [value[key] for key in value.keys()]  # noqa: SIM118 - HuggingFace's are no dict
        elif isinstance(value, (list, tuple)):
            inner = list(value)
        else:
            return value
        if not inner or isinstance(inner[0], (str, bytes, int, float)):
            return inner
        value = inner[0]
    return value


def _signs(leaf: Any, *, rows: bool) -> list[int]:
    """Give a checksum of each sample, or of the whole where there are none."""
    torch: Any = sys.modules.get("torch")
    if isinstance(leaf, list):
        return [_sign(repr(one).encode()[:BYTES]) for one in leaf]
    if not isinstance(leaf, torch.Tensor):
        return [_sign(repr(leaf).encode()[:BYTES])]
    if leaf.device.type != "cpu":
        recorder.unseen("samples", f"batches are on {leaf.device.type}")
        return []
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return _of_rows(leaf.detach(), rows and leaf.dim() > 0)


def _of_rows(leaf: Any, rows: bool) -> list[int]:  # noqa: FBT001
    flat = leaf.reshape(leaf.shape[0], -1) if rows else leaf.reshape(1, -1)
    flat = flat[:, : max(1, BYTES // max(1, leaf.element_size()))].contiguous()
    size = flat.shape[1] * flat.element_size()
    whole = ctypes.string_at(flat.data_ptr(), flat.shape[0] * size)
    return [_sign(whole[at * size : (at + 1) * size]) for at in range(flat.shape[0])]


def _sign(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "little")
