"""Make samples once that are the same each time."""

from typing import Final

from gapless.catalogue.declare import traps
from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.queries.input.loaders import Loading, find_loading
from gapless.errors import UsageError
from gapless.model.change import LoaderChange
from gapless.model.edit import Applicability, FixRequest, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Loader

NAME: Final = "sample-cache"
_MAX_MEMORY_SHARE: Final = 0.5  # of what is free
_MIN_KEPT_SHARE: Final = 0.25  # of the samples
# A sample, and a byte of it, taken from memory (benchmarks/kept_samples.py).
_KEPT_NS: Final = 15_000.0
_KEPT_BYTE_NS: Final = 0.34
# Samples that are made all the same, to be compared: so many of a process, and a share of others.
_FIRST_CHECKS: Final = 4
_CHECK_SHARE: Final = 1 / 32
_SAMPLE_STAGES: Final = (
    "read",
    "decode",
    "augment",
    "tokenise",
    "other",
)  # the stages of making a sample


def _made_ns(loading: Loading) -> float:
    """Return how long making the samples of a batch takes."""
    stages_ns = sum(stage.wall_ns for stage in loading.stages() if stage.name in _SAMPLE_STAGES)
    return loading.n_samples * stages_ns


def _kept_ns(loading: Loading) -> float:
    """Return how long a batch of kept samples takes: each is looked up and copied, some made."""
    loader = loading.loader
    first_share = 0.0
    if loader.num_workers and not loader.persistent_workers and loader.length:
        first_share = _FIRST_CHECKS * loader.num_workers / loader.length
    return (
        _KEPT_NS * loading.n_samples
        + _KEPT_BYTE_NS * (loader.batch_bytes or 0)
        + min(1.0, _CHECK_SHARE + first_share) * _made_ns(loading)
    )


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what is left of making samples: taking each from memory, and copying it once."""
    loader = evidence.facts.find_loader_at(proposal.location)
    loading = None if loader is None else find_loading(evidence, loader)
    if loading is None:
        return None
    made_ns, kept_ns = _made_ns(loading), _kept_ns(loading)
    if made_ns <= kept_ns:
        return None
    factor = kept_ns / made_ns
    return (LoaderChange(loading.loader.id, stages=dict.fromkeys(_SAMPLE_STAGES, factor)),)


@fix(
    NAME,
    value="FOLDER",
    effect=_predict_changes,
    cases="""
    # Nothing is random
    > risky: samples of train.py:41 are made once, and kept in memory
    cpu(worker_loader(random=False)), Wrap(LOADER, NAME, {}, LOADER_LINE)
    # In a folder, for later runs too
    > risky: samples of train.py:41 are made once, and kept in /local/tokens
    cpu(worker_loader(random=False)), Option(value="/local/tokens")
    Wrap(LOADER, NAME, {"folder": "/local/tokens"}, LOADER_LINE)
    # Random crops
    > refused: making samples of Images draws random numbers: each is another every time; what lies
      below can be kept: picture-cache
    cpu(worker_loader())
    # A million samples
    > refused: 1,000,000 samples of Images are 579.8 GiB, and 24.0 GiB of memory are free:
      sample-cache=FOLDER keeps them on a disk
    cpu(worker_loader(random=False, length=1_000_000))
    # A stream
    > refused: Images is an IterableDataset: its samples have no numbers
    cpu(loader(iterable=True, random=False))
    # Workers that are spawned
    > refused: workers of train.py:41 are started by spawn, and share no memory: sample-cache=FOLDER
      keeps them on a disk
    cpu(worker_loader(random=False, start_method="spawn"))
    """,
)
def sample_cache(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Keep samples that are the same each time: in memory, or in a folder on a local disk.

    From the second epoch on a sample is copied from memory that the workers share, at most a half
    of what is free, and not read, decoded or tokenised again. With a folder they are kept there,
    each with its checksum, and later runs have them from their first epoch: texts are tokenised
    once. At most a half of the disk's free space is filled.

    A trial fills the cache before it measures, so that it shows what later epochs gain. The first
    epoch gains nothing, and pays for copying each sample once more.

    ## Precondition
    A data set with samples by number, whose making draws no random number, of tensors, arrays,
    pictures, numbers and texts; in memory, workers that are forked, on Linux.

    ## Safety
    Risky: whatever making a sample does besides (counting, logging, looking at the epoch) is done
    once. Samples that draw from torch's, NumPy's or Python's global generators are never kept. Of
    those that are given again, the first four in each process and one in 32 are made all the same:
    if one is another now, nothing is given from the cache any more. With a folder, name another one
    when the data set changes.
    """
    if option.value is not None and "/" not in option.value:
        raise UsageError(f"{NAME}={option.value}: a folder is meant, with a slash: ./{NAME}")
    return propose_for_loaders(
        sample_cache, facts, option, lambda loader: _propose(facts, loader, option.value)
    )


def find_cache_obstacle(facts: Facts, loader: Loader, folder: str | None = None) -> str | None:
    """Return why samples cannot be kept; ``None``: no reason is known."""
    dataset, line_ref = traps.short_name(loader.dataset), name_line(loader.location)
    on_disk = f"{NAME}=FOLDER keeps them on a disk"
    if loader.iterable:
        return f"{dataset} is an IterableDataset: its samples have no numbers"
    if loader.random:
        return (
            f"making samples of {dataset} draws random numbers: each is another every time; what "
            "lies below can be kept: picture-cache"
        )
    if folder is not None:
        return None
    if loader.num_workers and loader.start_method not in (None, "fork"):
        method = loader.start_method
        return f"workers of {line_ref} are started by {method}, and share no memory: {on_disk}"
    size, free = _estimate_bytes(loader), facts.machine.memory_bytes
    if size is not None and free and size * _MIN_KEPT_SHARE > free * _MAX_MEMORY_SHARE:
        return (
            f"{loader.length:,} samples of {dataset} are {traps.format_bytes(size)}, and "
            f"{traps.format_bytes(free)} of memory are free: {on_disk}"
        )
    return None


def _estimate_bytes(loader: Loader) -> int | None:
    """Return the size of all samples, as batches hold them; ``None``: not known."""
    if not loader.length or not loader.batch_bytes or not loader.batch_size:
        return None
    return loader.batch_bytes * loader.length // loader.batch_size


def _propose(facts: Facts, loader: Loader, folder: str | None) -> Proposal:
    obstacle = find_cache_obstacle(facts, loader, folder)
    if obstacle is not None:
        return sample_cache.refusal(obstacle, loader.location)
    storage = "memory" if folder is None else folder
    return sample_cache.proposal(
        f"samples of {name_line(loader.location)} are made once, and kept in {storage}",
        Wrap(LOADER, NAME, {} if folder is None else {"folder": folder}, loader.location),
        applicability=Applicability.RISKY,
        risk="what making a sample does besides is done once",
        location=loader.location,
    )


def request_sample_cache(loading: Loading) -> tuple[FixRequest, ...]:
    """Return the fix for samples that were made again for each epoch, and draw no numbers.

    Samples that take no longer to make than to keep stay as they are.
    """
    loader = loading.loader
    is_constant = loader.random is False and loader.iterations > 1
    is_possible = is_constant and find_cache_obstacle(loading.facts, loader) is None
    is_possible = is_possible and _made_ns(loading) > _kept_ns(loading)
    return (loading.request(sample_cache),) if is_possible else ()
