"""Let the samples of a loader come from packed data, after a look whether they are the same."""

from __future__ import annotations

import os
import random
import sys
from contextlib import contextmanager
from typing import Any, Callable

import torch
from torch.utils.data import Subset

from .packed_dataset import PackedDataset

_LOOKS = 3  # samples that are compared: the first, the last, and between


def read_packed(loader: Any, path: str) -> Any:
    """Let the samples of a ``DataLoader`` be read from what ``gapless pack`` wrote; return it.

    ``loader = read_packed(DataLoader(…), "photos.packed")``: in place of the loader's data set, or
    of the one that its ``Subset`` is of, samples come from the folder ``path``, by way of the
    same ``transform`` and ``target_transform``. Indices, and with them the order, stay.

    The first sample, the last and one between are made both ways first, from the same random
    seeds. Raises ``ValueError`` if they differ, or if the data set is not as long as what was
    packed; the loader then stays as it was.
    """
    replace_dataset(loader, path)
    return loader


def replace_dataset(loader: Any, path: str) -> Callable[[], None] | None:
    """Replace the data set of a loader; return what puts it back, ``None`` if it is packed already.

    Raises as ``read_packed`` does.
    """
    holder, dataset = _find_dataset(loader)
    if isinstance(dataset, PackedDataset):
        return None
    _check_length(dataset, path)
    outer = loader.dataset
    indices = _choose_indices(_length(outer))
    samples = _make_samples(outer, indices)
    if _spell(samples) != _spell(_make_samples(outer, indices)):
        raise ValueError(
            f"samples of {_name(outer)} are others when they are made again from the same random "
            "seeds: whether those that were packed are the same cannot be said"
        )

    def put_back() -> None:
        vars(holder)["dataset"] = dataset

    try:
        for packed in _open_packed(dataset, path):
            vars(holder)["dataset"] = packed
            if _spell(_make_samples(loader.dataset, indices)) == _spell(samples):
                return put_back
    except BaseException:
        put_back()
        raise
    put_back()
    raise ValueError(
        f"samples that were packed in {path} are not those of {_name(dataset)}: looked at were "
        f"{', '.join(map(str, indices))}"
    )


def _find_dataset(loader: Any) -> tuple[Any, Any]:
    """Return the data set of a loader, below its subsets, and what has it as its ``dataset``."""
    holder = loader
    while isinstance(holder.dataset, Subset):
        holder = holder.dataset
    return holder, holder.dataset


def _check_length(dataset: Any, path: str) -> None:
    count, n_packed = _length(dataset), len(PackedDataset(path))
    if count != n_packed:
        raise ValueError(f"{_name(dataset)} has {count} samples, {path} has {n_packed}")


def _length(dataset: Any) -> int:
    if not hasattr(type(dataset), "__len__") or not hasattr(type(dataset), "__getitem__"):
        raise ValueError(f"{_name(dataset)} has no samples by index")
    return len(dataset)


def _choose_indices(count: int) -> list[int]:
    return sorted({step * (count - 1) // (_LOOKS - 1) for step in range(_LOOKS)} if count else ())


def _open_packed(dataset: Any, path: str) -> Any:
    """Yield the packed data without transforms, which may be packed, then with those of before."""
    path = os.fspath(path)
    yield PackedDataset(path)
    names = ("transform", "target_transform")
    first, second = (
        change if callable(change := getattr(dataset, name, None)) else None for name in names
    )
    if first is not None or second is not None:
        yield PackedDataset(path, first, second)


def _make_samples(dataset: Any, indices: list[int]) -> list[Any]:
    """Return samples made from known random seeds; what these were before is restored."""
    with _known_seeds():
        return [dataset[index] for index in indices]


@contextmanager
def _known_seeds() -> Any:
    numpy = sys.modules.get("numpy")
    states = random.getstate(), None if numpy is None else numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        random.seed(0)
        if numpy is not None:
            numpy.random.seed(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            if numpy is not None:
                numpy.random.set_state(states[1])


def _spell(value: Any) -> Any:
    """Return what a value is, in types and bytes that can be compared."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes()
        return type(value), value.dtype, tuple(value.shape), data
    if hasattr(value, "tobytes") and not isinstance(value, memoryview):  # arrays; Pillow's images
        kind = getattr(value, "dtype", None) or getattr(value, "mode", None)
        return str(kind), getattr(value, "shape", getattr(value, "size", None)), value.tobytes()
    if isinstance(value, dict):
        return type(value), [(key, _spell(value[key])) for key in value]
    if isinstance(value, (list, tuple)):
        return type(value), [_spell(member) for member in value]
    if type(value).__module__ != "builtins" and hasattr(value, "__dict__"):
        return type(value), _spell(vars(value))
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


def _name(dataset: Any) -> str:
    return type(dataset).__name__
