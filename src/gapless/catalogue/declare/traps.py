"""Traps of loaders: edits that look harmless, and would train on other data, or crash."""

from typing import Final

from gapless.model.edit import Applicability
from gapless.model.facts import Facts, Loader

DEFAULT_PREFETCH: Final = 2  # what torch prefetches for each worker by default
_FORKSERVER_SINCE: Final = (3, 14)  # the Python that no longer forks by default
_GIB: Final = 1 << 30


def find_workers_trap(facts: Facts, loader: Loader, n_workers: int) -> str | None:
    """Return why a loader must not have so many workers; ``None`` if no reason is known."""
    if n_workers == 0:
        return None
    if loader.iterable and n_workers > 1 and loader.asks_worker_info is False:
        return (
            f"{short_name(loader.dataset)} is an IterableDataset that never asks "
            f"get_worker_info(): each of {n_workers} workers would yield every sample once"
        )
    python = facts.world.python
    start_method = loader.start_method or (
        "forkserver" if python and python >= _FORKSERVER_SINCE else "fork"
    )
    if loader.num_workers == 0 and start_method != "fork" and loader.picklable is False:
        return (
            f"workers are started by {start_method}, and {short_name(loader.dataset)} or its "
            "collate function cannot be pickled for them (a lambda, a local class, an open file, "
            "a lock, a generator)"
        )
    if loader.num_workers == 0 and start_method == "fork" and loader.cuda_in_dataset:
        return (
            f"{short_name(loader.dataset)} names CUDA, which cannot be used in a forked worker: "
            "move to the device in the training loop"
        )
    return find_memory_trap(facts, loader, n_workers, loader.prefetch_factor or DEFAULT_PREFETCH)


def find_memory_trap(facts: Facts, loader: Loader, n_workers: int, prefetch: int) -> str | None:
    """Return why queued batches would not fit into memory; ``None``: they do, or it is unknown."""
    if loader.batch_bytes is None:
        return None
    ranks = facts.world.local_ranks or facts.world.ranks
    needed_bytes = n_workers * prefetch * loader.batch_bytes * ranks
    batches = f"{n_workers} workers × {prefetch} batches of {format_bytes(loader.batch_bytes)}"
    batches += f" × {ranks} processes" if ranks > 1 else ""
    for available_bytes, pool in (
        (facts.machine.shm_bytes, "free in /dev/shm"),
        (facts.machine.memory_bytes, "of memory available"),
    ):
        if available_bytes is not None and needed_bytes > available_bytes:
            return (
                f"{batches} are {format_bytes(needed_bytes)}, and {format_bytes(available_bytes)} "
                f"are {pool}"
            )
    return None


def judge_randomness(loader: Loader) -> tuple[Applicability, str | None]:
    """Return how another number of workers changes the samples, and a sentence on it."""
    if loader.iterable and loader.asks_worker_info is None:
        return (
            Applicability.RISKY,
            "whether the data set shares samples out among workers is not known",
        )
    if loader.iterable:
        return Applicability.EQUIVALENT, "samples come in another order"
    if loader.random is False:
        return Applicability.IDENTICAL, None
    if loader.random is None:
        return (
            Applicability.EQUIVALENT,
            "whether samples are drawn at random was not observed: if so, from other seeds",
        )
    return Applicability.EQUIVALENT, "each worker draws from a random stream of its own"


def short_name(name: str) -> str:
    """Return the last part of a qualified name."""
    return name.rpartition(".")[2]


def format_bytes(count: int) -> str:
    """Format a number of bytes: "38.0 MiB"."""
    for unit, scale in (("GiB", _GIB), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
