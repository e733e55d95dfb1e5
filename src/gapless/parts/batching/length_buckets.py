"""Put samples of similar lengths into a batch, so that little of it is padding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_POOL_BATCHES = 50  # of which samples are sorted together
_MAX_DEPTH = 8  # subsets of subsets
_LOOKED_AT = 64  # members of a list
_MAX_PATH = 4096  # characters of a path


def bucket_by_length(loader: Any, lengths: Any = None, pool: int = _POOL_BATCHES) -> Any:
    """Let each batch of a ``DataLoader`` hold samples of similar lengths; return the loader.

    ``loader = bucket_by_length(DataLoader(…, shuffle=True))``: of ``pool`` batches at a time, as
    the sampler gives them, samples are sorted by length, cut into batches, and the batches mixed.
    Each sample is there as often as ever, in another batch. ``lengths``: of each sample; without
    them, those of the texts or lists that the data set has, one for each sample. Raises
    ``ValueError`` where there are none.
    """
    if isinstance(loader.batch_sampler, LengthBatches):
        return loader
    sizes = find_lengths(loader.dataset) if lengths is None else list(lengths)
    if sizes is None:
        raise ValueError(f"{type(loader.dataset).__name__} has no texts or lists, one for a sample")
    if not has_plain_batches(loader):
        raise ValueError("its batches are chosen by a sampler of its own")
    # a DataLoader refuses to be given another one once it is made
    vars(loader)["batch_sampler"] = LengthBatches(loader.batch_sampler, sizes, pool)
    return loader


def has_plain_batches(loader: Any) -> bool:
    """Return whether torch's own batch sampler chooses the samples of a batch."""
    return type(loader.batch_sampler) is torch.utils.data.BatchSampler


def find_lengths(dataset: Any) -> list[int] | None:
    """Return the length of each sample of a data set; None: nothing says that before it is made."""
    indices: list[int] | None = None
    for _ in range(_MAX_DEPTH):
        name = name_sized_list(dataset, _count_samples)
        if name is not None:
            sizes = [len(member) for member in vars(dataset)[name]]
            return sizes if indices is None else [sizes[index] for index in indices]
        if type(dataset) is not torch.utils.data.Subset:
            return None
        chosen = [int(index) for index in dataset.indices]
        indices = chosen if indices is None else [chosen[index] for index in indices]
        dataset = dataset.dataset
    return None


def name_sized_list(dataset: Any, count_samples: Callable[[Any], int | None]) -> str | None:
    """Return the data set's list of texts, lists or rows, one for each sample; None: it has none.

    ``count_samples``: asked for a data set with such a list; nothing else of it is run. Texts have
    several words, and lengths differ: names of files, or pairs, do not count.
    """
    has_members = bool(type(dataset).__dictoffset__)
    members_by_name = object.__getattribute__(dataset, "__dict__") if has_members else None
    if type(members_by_name) is not dict:
        return None
    for name, members in list(members_by_name.items()):
        first_members = members[:_LOOKED_AT] if type(members) in (list, tuple) else ()
        is_varied = (
            bool(first_members)
            and _are_sized(first_members)
            and len({len(member) for member in first_members}) > 1
        )
        if is_varied and len(members) == count_samples(dataset):
            return name
    return None


def _count_samples(dataset: Any) -> int | None:
    return len(dataset) if hasattr(type(dataset), "__len__") else None


def _are_sized(members: Any) -> bool:
    """Return whether members have lengths that are those of their samples."""
    if all(type(member) is str for member in members):
        n_sentences = sum(" " in member.strip() for member in members)
        is_text = 2 * n_sentences >= len(members)  # one word may be a text, too
        return is_text and not os.path.exists(members[0][:_MAX_PATH])
    return all(type(member) in (list, tuple) or _is_row(member) for member in members)


def _is_row(member: Any) -> bool:
    """Return whether a member is a tensor, or an array of NumPy's, of one dimension."""
    return type(member).__module__ in ("torch", "numpy") and getattr(member, "ndim", 0) == 1


class LengthBatches:
    """A batch sampler that gives the samples of another one, those of similar lengths together."""

    def __init__(self, batches: Any, lengths: list[int], pool: int) -> None:
        self.batches, self.lengths, self.pool = batches, lengths, pool
        self.on_batch: Callable[[], None] | None = None  # called with each batch

    def __len__(self) -> int:
        """Return how many batches an epoch has: as many as ever."""
        return len(self.batches)

    def __getattr__(self, name: str) -> Any:
        """Return what is asked of the other one: ``batch_size``, ``sampler``, ``drop_last``."""
        if name == "batches":
            raise AttributeError(name)
        return getattr(self.batches, name)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of an epoch."""
        batches: list[list[int]] = []
        for batch in self.batches:
            batches.append(batch)
            if len(batches) == self.pool:
                yield from self._mix(batches)
                batches = []
        yield from self._mix(batches)

    def _mix(self, batches: list[list[int]]) -> Iterator[list[int]]:
        """Yield as many batches, as large as they were; a smaller last one stays the last."""
        indices = sorted((index for batch in batches for index in batch), key=self._length)
        sizes = [len(batch) for batch in batches]
        is_last_smaller = len(sizes) > 1 and sizes[-1] < sizes[0]
        order = list(range(len(sizes) - is_last_smaller))
        generator = torch.Generator().manual_seed(_seed_of(batches))
        mixed = [order[number] for number in torch.randperm(len(order), generator=generator)]
        mixed += [len(sizes) - 1] * is_last_smaller
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + size)
        for number in mixed:
            if self.on_batch is not None:
                self.on_batch()
            yield indices[starts[number] : starts[number + 1]]

    def _length(self, index: int) -> int:
        return self.lengths[index]


def _seed_of(batches: list[list[int]]) -> int:
    """Return a seed that follows from the order of samples: the training's generators rest."""
    return hash(tuple(index for batch in batches for index in batch)) % (1 << 62)
