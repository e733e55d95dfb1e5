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
from ..process_state import keep

MAX_BATCHES = 4_000  # of a loader whose indices are written
MAX_INDICES = 200_000  # of an iteration that are told apart
MAX_SAMPLE_BYTES = 4096  # of a sample
_WORD = (1 << 64) - 1
_INTEGERS = frozenset([int])
_MAP = 0  # torch's _DatasetKind.Map


class _Iteration:
    """One iterator of a loader."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.drawn: deque[Any] = deque()  # and not handed over yet
        self.epoch = -1
        self.distinct: set[Any] | None = set()


class _TrainedSamples:
    """What was handed over so far."""

    def __init__(self) -> None:
        self.max_batches = 0  # whose samples are looked at
        self.fork()

    def fork(self) -> None:
        """Know of nothing: what the parent saw, the parent writes."""
        self.iterations: dict[int, _Iteration] = {}  # by id of the iterator
        self.epochs: dict[int, int] = {}  # by loader, as those below
        self.indices: dict[int, list[Any]] = {}
        self.samples: dict[int, list[Any]] = {}


_trained = keep(_TrainedSamples())


def begin(batches: int) -> None:
    """Look at what loaders hand over; at the samples of the first ``batches`` of each."""
    _trained.fork()
    _trained.max_batches = batches
    if batches > 0:
        imports.when_imported("torch.utils.data.dataloader", _watch)


def collect_samples() -> dict[str, Any]:
    """Return what was handed over, by loader."""
    return {"indices": dict(_trained.indices), "samples": dict(_trained.samples)}


def _watch(module: Any) -> None:
    iterator, workers = module._BaseDataLoaderIter, module._MultiProcessingDataLoaderIter
    patching.replace(iterator, "_next_index", patching.around("samples", None, _after_next_index))
    patching.replace(iterator, "__next__", patching.around("samples", None, _after_next))
    patching.replace(workers, "_reset", patching.around("samples", _before_reset, None))


def _find_iteration(iterator: Any) -> _Iteration:
    iteration = _trained.iterations.get(id(iterator))
    return (
        iteration
        if iteration is not None and iteration.iterator() is iterator
        else _add_iteration(iterator)
    )


def _add_iteration(iterator: Any) -> _Iteration:
    for number, iteration in list(_trained.iterations.items()):
        if iteration.iterator() is None:
            _trained.iterations.pop(number, None)
    new_iteration = _trained.iterations[id(iterator)] = _Iteration(iterator)
    return new_iteration


def _before_reset(args: tuple, _kwargs: dict) -> None:
    """Begin an iteration: of persistent workers the iterator is the one of the last."""
    _add_iteration(args[0])


def _after_next_index(_state: Any, args: tuple, index: Any, raised: Any) -> None:
    iterator = args[0]
    if raised is None and iterator._dataset_kind == _MAP:
        _find_iteration(iterator).drawn.append(index)


def _after_next(_state: Any, args: tuple, batch: Any, raised: Any) -> None:
    iterator = args[0]
    loader = recorder.identify("loader", iterator)
    if raised is not None or loader is None:
        return
    iteration = _find_iteration(iterator)
    if iteration.epoch < 0:
        iteration.epoch = _trained.epochs.get(loader, 0)
        _trained.epochs[loader] = iteration.epoch + 1
    if iterator._dataset_kind == _MAP:
        _note_indices(iteration, _trained.indices.setdefault(loader, []))
    else:
        _note_samples(iteration, _trained.samples.setdefault(loader, []), iterator, batch)


def _note_indices(iteration: _Iteration, rows: list[Any]) -> None:
    if not iteration.drawn or len(rows) >= MAX_BATCHES:
        return
    index = iteration.drawn.popleft()
    batch = tuple(index) if isinstance(index, (list, tuple)) else (index,)
    plain = _INTEGERS.issuperset(map(type, batch))
    sign = hash(batch) & _WORD if plain else _sign(repr(batch).encode())
    if iteration.distinct is not None:
        iteration.distinct.update(batch if plain else map(repr, batch))
        if len(iteration.distinct) > MAX_INDICES:
            iteration.distinct = None
    n_distinct = None if iteration.distinct is None else len(iteration.distinct)
    rows.append((iteration.epoch, f"{sign:016x}", len(batch), n_distinct))


def _note_samples(iteration: _Iteration, rows: list[Any], iterator: Any, batch: Any) -> None:
    if len(rows) < _trained.max_batches:
        leaf = _first_leaf(batch)
        signs = _signs(leaf, rows=True) if iterator._auto_collation else _signs(leaf, rows=False)
        rows.append((iteration.epoch, [f"{sign:016x}" for sign in signs]))


def _first_leaf(value: Any) -> Any:
    """Return the first thing in nested containers that is none; a list of strings is one."""
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
    """Return a checksum of each sample, or of the whole where there are none."""
    torch: Any = sys.modules.get("torch")
    if isinstance(leaf, list):
        return [_sign(repr(value).encode()[:MAX_SAMPLE_BYTES]) for value in leaf]
    if not isinstance(leaf, torch.Tensor):
        return [_sign(repr(leaf).encode()[:MAX_SAMPLE_BYTES])]
    if leaf.device.type != "cpu":
        recorder.report_unobserved("samples", f"batches are on {leaf.device.type}")
        return []
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return _of_rows(leaf.detach(), rows and leaf.dim() > 0)


def _of_rows(leaf: Any, rows: bool) -> list[int]:  # noqa: FBT001
    flat = leaf.reshape(leaf.shape[0], -1) if rows else leaf.reshape(1, -1)
    flat = flat[:, : max(1, MAX_SAMPLE_BYTES // max(1, leaf.element_size()))].contiguous()
    size = flat.shape[1] * flat.element_size()
    raw = ctypes.string_at(flat.data_ptr(), flat.shape[0] * size)
    return [_sign(raw[row * size : (row + 1) * size]) for row in range(flat.shape[0])]


def _sign(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "little")
