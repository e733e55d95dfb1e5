"""Use more DataLoader workers."""

from typing import Final

from gapless.catalogue.declare import traps
from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Edit, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

_MAX_WORKERS: Final = 16  # to try first, at most; more only on request


@fix(
    "more-workers",
    effect=loader_changes,
    value="WORKERS",
    cases="""
    # No workers, images augmented at random
    > equivalent: num_workers 0 → 8 at train.py:41
    gpu(), Option(value="8"), SetArgument(LOADER, "num_workers", 8, LOADER_LINE)
    # No fetch was seen to draw a random number
    > same: num_workers 0 → 16 at train.py:41
    gpu(loader(random=False))
    # Two processors, but nine tenths of a fetch wait for the disk
    > equivalent: num_workers 0 → 16 at train.py:41
    cpu(loader(blocked=0.9))
    # Eight already
    > nothing to change: num_workers is already 8 at train.py:41
    gpu(worker_loader()), Option(value="8")
    # Eight, on eight processors
    > nothing to change: 8 workers at train.py:41 are as many as the processors can feed; for more,
      use more-workers=N
    gpu(worker_loader(), machine(cpus=8))
    # No workers at all
    > equivalent: num_workers 8 → 0 at train.py:41
    gpu(worker_loader(persistent_workers=True)), Option(value="0")
    SetArgument(LOADER, "num_workers", 0, LOADER_LINE)
    SetArgument(LOADER, "prefetch_factor", None, LOADER_LINE)
    SetArgument(LOADER, "persistent_workers", value=False, where=LOADER_LINE)
    # A stream that every worker would read from the start
    > refused: Lines is an IterableDataset that never asks get_worker_info(): each of 2 workers
      would yield every sample once
    gpu(loader(iterable=True, dataset="__main__.Lines", asks_worker_info=False))
    Option(value="2")
    # Workers that are spawned, and a data set that holds an open file
    > refused: workers are started by spawn, and Images or its collate function cannot be pickled
      for them (a lambda, a local class, an open file, a lock, a generator)
    gpu(loader(start_method="spawn", picklable=False))
    # Samples that the data set moves to the device
    > refused: Images names CUDA, which cannot be used in a forked worker: move to the device in the
      training loop
    gpu(loader(cuda_in_dataset=True))
    # A container with 64 MiB of shared memory
    > refused: 8 workers × 2 batches of 38.0 MiB are 608.0 MiB, and 64.0 MiB are free in /dev/shm
    gpu(machine(shm_bytes=64 << 20)), Option(value="8")
    # The processors were not counted
    > refused: the processors were not counted: give a number by more-workers=N
    gpu(machine(cpus=None))
    # A stream that divides its samples among workers
    > equivalent: num_workers 0 → 4 at train.py:41
    gpu(loader(iterable=True, asks_worker_info=True)), Option(value="4")
    # A stream for which that is not known
    > risky: num_workers 0 → 4 at train.py:41
    gpu(loader(iterable=True)), Option(value="4")
    # Whether fetches draw random numbers was not observed
    > equivalent: num_workers 0 → 4 at train.py:41
    gpu(loader(random=None, batch_bytes=None)), Option(value="4")
    """,
)
def more_workers(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let more workers make batches in parallel (``more-workers=8``; 0: none).

    The default is the number of processors that each process may use, divided by the share of a
    fetch that needs one: a read that waits for the disk leaves its processor to others, so more
    workers than processors may be right.

    ## Precondition
    A DataLoader. Refused where each worker would yield all samples (an IterableDataset that never
    asks ``get_worker_info``), where workers could not start (a data set that cannot be pickled,
    under spawn), where they would crash (CUDA in a forked worker), and where the batches that wait
    would not fit into shared memory or memory.

    ## Safety
    Bit-identical only if no fetch was seen to advance torch's, NumPy's or Python's generator:
    random augmentation draws from each worker's own seed, so another number of workers gives other
    numbers, though equally good ones. On few processors, workers compete with the
    training's own threads: see ``workers-and-one-thread``.
    """
    return propose_for_loaders(
        more_workers, facts, option, lambda loader: _propose(facts, loader, option)
    )


def suggest_workers(facts: Facts, loader: Loader) -> int | None:
    """Return how many workers to try first; ``None`` if the processors were not counted."""
    if facts.machine.cpus is None:
        return None
    n_processors = max(1, facts.machine.cpus // (facts.world.local_ranks or facts.world.ranks))
    busy_share = 1 - min(loader.blocked or 0.0, 0.95)
    return min(round(n_processors / busy_share), max(_MAX_WORKERS, n_processors))


def set_workers(loader: Loader, n_workers: int) -> tuple[Edit, ...]:
    """Return the edits that set the number; without workers two other arguments are removed."""
    edits: list[Edit] = [SetArgument(LOADER, "num_workers", n_workers, loader.location)]
    if n_workers == 0:
        edits.append(SetArgument(LOADER, "prefetch_factor", None, loader.location))
        edits.append(SetArgument(LOADER, "persistent_workers", value=False, where=loader.location))
    return tuple(edits)


def _propose(facts: Facts, loader: Loader, option: Option) -> Proposal:
    default_count = suggest_workers(facts, loader)
    old_count, line_ref = loader.num_workers, name_line(loader.location)
    if option.value is None and default_count is None:
        reason = "the processors were not counted: give a number by more-workers=N"
        return more_workers.refusal(reason, loader.location)
    n_workers = option.parse_number(default_count or 1, minimum=0)
    if option.value is None and n_workers <= old_count:
        reason = f"{old_count} workers at {line_ref} are as many as the processors can feed"
        return more_workers.no_change(f"{reason}; for more, use more-workers=N", loader.location)
    if n_workers == old_count:
        return more_workers.no_change(
            f"num_workers is already {old_count} at {line_ref}", loader.location
        )
    trap = traps.find_workers_trap(facts, loader, n_workers)
    if trap is not None:
        return more_workers.refusal(trap, loader.location)
    applicability, risk = traps.judge_randomness(loader)
    return more_workers.proposal(
        f"num_workers {old_count} → {n_workers} at {line_ref}",
        *set_workers(loader, n_workers),
        applicability=applicability,
        risk=risk,
        location=loader.location,
    )
