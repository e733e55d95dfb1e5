"""Put batches into pinned memory."""

from typing import Final

from gapless.catalogue.declare import traps
from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.copies import copy_effect
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader

UNPINNABLE_CASES: Final = """
    # Batches of a class that torch cannot pin
    > refused: batches of the loader at train.py:41 cannot be pinned: give their class a method
      pin_memory()
    gpu(loader(pinnable=False))
    # No device
    > refused: no device was used: nothing is copied to one
    cpu()
    """  # of all fixes that pin batches


@fix(
    "pin-memory",
    effect=copy_effect(non_blocking=False),
    cases="""
    # Batches in ordinary memory
    > same: pin_memory False → True at train.py:41
    gpu(), SetArgument(LOADER, "pin_memory", value=True, where=LOADER_LINE)
    # Already pinned
    > nothing to change: pin_memory is already True at train.py:41
    gpu(loader(pin_memory=True))
    """
    + UNPINNABLE_CASES,
)
def pin_memory(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader put batches into pinned memory, from which copies to the device are faster.

    ## Precondition
    A device, and batches of tensors, numbers and containers of these, or of a class with a method
    ``pin_memory()``. torch silently leaves anything else unpinned.

    ## Safety
    The same values. Pinned memory cannot be swapped out; an extra thread pins batches of workers.
    With persistent workers the end of a job may take longer: a trial measures it.
    """
    if not uses_cuda(facts):
        return (pin_memory.refusal("no device was used: nothing is copied to one"),)
    return propose_for_loaders(pin_memory, facts, option, lambda loader: _propose(facts, loader))


def find_pin_obstacle(loader: Loader) -> str | None:
    """Return why the batches of a loader cannot be pinned; ``None`` if no reason is known."""
    if loader.pinnable is not False:
        return None
    return (
        f"batches of the loader at {name_line(loader.location)} cannot be pinned: "
        "give their class a method pin_memory()"
    )


def _propose(facts: Facts, loader: Loader) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.pin_memory:
        return pin_memory.no_change(f"pin_memory is already True at {line_ref}", loader.location)
    n_workers = max(1, loader.num_workers)
    trap = find_pin_obstacle(loader) or traps.find_memory_trap(
        facts, loader, n_workers, loader.prefetch_factor or 1
    )
    if trap is not None:
        return pin_memory.refusal(trap, loader.location)
    return pin_memory.proposal(
        f"pin_memory False → True at {line_ref}",
        SetArgument(LOADER, "pin_memory", value=True, where=loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
