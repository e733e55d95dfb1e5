"""Let each worker prefetch more batches."""

from typing import Final

from gapless.catalogue.declare import traps
from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.loaders import loader_changes
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

_DEFAULT_FACTOR: Final = 4


@fix(
    "prefetch",
    effect=loader_changes,
    value="BATCHES",
    cases="""
    # Eight workers, two batches ahead each
    > same: prefetch_factor 2 → 4 at train.py:41
    gpu(worker_loader()), SetArgument(LOADER, "prefetch_factor", 4, LOADER_LINE)
    # No workers
    > refused: the loader at train.py:41 has no workers that could work ahead: more-workers first
    gpu()
    # Already so
    > nothing to change: prefetch_factor is already 2 at train.py:41
    gpu(worker_loader()), Option(value="2")
    # A container with 1 GiB of shared memory
    > refused: 8 workers × 8 batches of 38.0 MiB are 2.4 GiB, and 1.0 GiB are free in /dev/shm
    gpu(worker_loader(), machine(shm_bytes=1 << 30)), Option(value="8")
    """,
)
def prefetch(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let each worker make N batches ahead (by default 4, or twice the present number).

    It helps where single samples take very long: a deeper queue bridges them. Where workers are too
    slow overall it does not.

    ## Precondition
    A loader with workers, and memory for the queued batches.

    ## Safety
    The same batches in the same order. More of them are in memory at a time.
    """
    return propose_for_loaders(
        prefetch, facts, option, lambda loader: _propose(facts, loader, option)
    )


def _propose(facts: Facts, loader: Loader, option: Option) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.num_workers == 0:
        reason = (
            f"the loader at {line_ref} has no workers that could work ahead: more-workers first"
        )
        return prefetch.refusal(reason, loader.location)
    old_factor = loader.prefetch_factor or traps.DEFAULT_PREFETCH
    new_factor = option.parse_number(
        _DEFAULT_FACTOR if old_factor < _DEFAULT_FACTOR else 2 * old_factor
    )
    if new_factor == old_factor:
        return prefetch.no_change(
            f"prefetch_factor is already {old_factor} at {line_ref}", loader.location
        )
    trap = traps.find_memory_trap(facts, loader, loader.num_workers, new_factor)
    if trap is not None:
        return prefetch.refusal(trap, loader.location)
    return prefetch.proposal(
        f"prefetch_factor {old_factor} → {new_factor} at {line_ref}",
        SetArgument(LOADER, "prefetch_factor", new_factor, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
