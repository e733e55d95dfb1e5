"""Traps of loaders: what looks like an edit of speed, and would train on other data, or crash."""

from typing import Final

from gapless.model.edit import Applicability
from gapless.model.facts import Facts, Loader

PREFETCH: Final = 2  # what torch prefetches for each worker, unless it is told otherwise
_OTHERWISE: Final = (3, 14)  # the Python that forks no more by default
_GIB: Final = 1 << 30


def workers(facts: Facts, loader: Loader, many: int, prefetch: int | None = None) -> str | None:
    """Give why a loader must not have so many workers; ``None``: nothing is known against it."""
    if many == 0:
        return None
    if loader.iterable and many > 1 and loader.asks_worker_info is False:
        return (
            f"{short(loader.dataset)} is an IterableDataset that never asks get_worker_info(): "
            f"each of {many} workers would give every sample once"
        )
    python = facts.world.python
    started = loader.start_method or ("forkserver" if python and python >= _OTHERWISE else "fork")
    if loader.num_workers == 0 and started != "fork" and loader.picklable is False:
        return (
            f"workers are started by {started}, and {short(loader.dataset)} or its collate "
            "function cannot be pickled for them (a lambda, a local class, an open file, a lock, "
            "a generator)"
        )
    if loader.num_workers == 0 and started == "fork" and loader.cuda_in_dataset:
        return (
            f"{short(loader.dataset)} names CUDA, which cannot be used in a forked worker: "
            "move to the device in the training loop"
        )
    return crowded(facts, loader, many, prefetch or loader.prefetch_factor or PREFETCH)


def crowded(facts: Facts, loader: Loader, many: int, prefetch: int) -> str | None:
    """Give why batches that wait would not fit into memory; ``None``: they do, or it is unknown."""
    if loader.batch_bytes is None:
        return None
    ranks = facts.world.local_ranks or facts.world.ranks
    need = many * prefetch * loader.batch_bytes * ranks
    each = f"{many} workers × {prefetch} batches of {size(loader.batch_bytes)}"
    each += f" × {ranks} processes" if ranks > 1 else ""
    for have, where in (
        (facts.machine.shm_bytes, "free in /dev/shm"),
        (facts.machine.memory_bytes, "of memory available"),
    ):
        if have is not None and need > have:
            return f"{each} are {size(need)}, and {size(have)} are {where}"
    return None


def randomness(loader: Loader) -> tuple[Applicability, str | None]:
    """Give what another number of workers changes of the samples, and the sentence on it."""
    if loader.iterable and loader.asks_worker_info is None:
        return (
            Applicability.RISKY,
            "whether the data set shares samples out among workers is not known",
        )
    if loader.iterable:
        return Applicability.EQUIVALENT, "samples come in another order"
    if loader.random is False:
        return Applicability.SAME, None
    if loader.random is None:
        return (
            Applicability.EQUIVALENT,
            "whether samples are drawn at random was not observed: if so, from other seeds",
        )
    return Applicability.EQUIVALENT, "each worker draws from a random stream of its own"


def short(name: str) -> str:
    """Give the last part of a qualified name."""
    return name.rpartition(".")[2]


def size(count: int) -> str:
    """Give bytes for people."""
    for unit, scale in (("GiB", _GIB), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
