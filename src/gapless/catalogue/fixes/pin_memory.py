"""Batches in pinned memory."""

from gapless.catalogue import examples, traps
from gapless.catalogue.choosing import propose_for_loaders, name_line, uses_cuda
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts, Loader


@fix(
    "pin-memory",
    since="0.1",
    cases=[
        Case(
            "Batches in ordinary memory",
            examples.gpu(),
            "same: pin_memory False → True at train.py:41",
            edits=(SetArgument(LOADER, "pin_memory", value=True, where=examples.LOADER_LINE),),
        ),
        Case(
            "They are pinned",
            examples.gpu(examples.loader(pin_memory=True)),
            "nothing to change: pin_memory is already True at train.py:41",
        ),
        Case(
            "Batches of a class that torch cannot pin",
            examples.gpu(examples.loader(pinnable=False)),
            "refused: batches of the loader at train.py:41 hold what cannot be pinned: give them "
            "a method pin_memory()",
        ),
        Case("No device", examples.cpu(), "refused: no device was used: nothing is copied to one"),
    ],
)
def pin_memory(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the loader put batches into pinned memory, from which copies to the device are faster.

    ## Precondition
    A device, and batches of tensors, numbers and containers of these, or of a class with a method
    ``pin_memory()``. Anything else torch passes over without a word.

    ## Safety
    The same values. Pinned memory cannot be swapped out; a thread more pins the batches of workers.
    With persistent workers the end of a job may take longer: a trial measures it.
    """
    if not uses_cuda(facts):
        return (pin_memory.refusal("no device was used: nothing is copied to one"),)
    return propose_for_loaders(pin_memory, facts, option, lambda loader: _propose(facts, loader))


def find_pin_obstacle(loader: Loader) -> str | None:
    """Return why the batches of a loader cannot be pinned; ``None``: nothing is known against it."""
    if loader.pinnable is not False:
        return None
    return (
        f"batches of the loader at {name_line(loader.location)} hold what cannot be pinned: give them a "
        "method pin_memory()"
    )


def _propose(facts: Facts, loader: Loader) -> Proposal:
    line_ref = name_line(loader.location)
    if loader.pin_memory:
        return pin_memory.no_change(f"pin_memory is already True at {line_ref}", loader.location)
    n_workers = max(1, loader.num_workers)
    trap = find_pin_obstacle(loader) or traps.find_memory_trap(facts, loader, n_workers, loader.prefetch_factor or 1)
    if trap is not None:
        return pin_memory.refusal(trap, loader.location)
    return pin_memory.proposal(
        f"pin_memory False → True at {line_ref}",
        SetArgument(LOADER, "pin_memory", value=True, where=loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
