"""Let copies to the device not block the host."""

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, select_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.effects.copies import copy_effect
from gapless.catalogue.fixes.input.pin_memory import UNPINNABLE_CASES, find_pin_obstacle
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "non-blocking",
    effect=copy_effect(non_blocking=True),
    cases="""
    # Batches in ordinary memory
    > same: copies to the device do not block, pin_memory False → True at train.py:41
    gpu(), Wrap("torch.Tensor.to", "non-blocking")
    SetArgument(LOADER, "pin_memory", value=True, where=LOADER_LINE)
    # Pinned ones
    > same: copies to the device do not block
    gpu(loader(pin_memory=True)), Wrap("torch.Tensor.to", "non-blocking")
    """
    + UNPINNABLE_CASES,
)
def non_blocking(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let copies of pinned tensors to the device run while the host goes on.

    ``.to(device)`` and ``.cuda()`` of tensors in pinned memory get ``non_blocking=True``; loaders
    that do not pin are made to. Copies back to the host still wait.

    ## Precondition
    A device, and batches that can be pinned.

    ## Safety
    The same values: a loader makes each batch in new memory. Only a script that writes into pinned
    memory of its own right after copying from it would copy the new values.
    """
    if not uses_cuda(facts):
        return (non_blocking.refusal("no device was used: nothing is copied to one"),)
    targets = select_loaders(facts, option)
    reason = next(filter(None, map(find_pin_obstacle, targets)), None)
    if reason is not None:
        return (non_blocking.refusal(reason),)
    pin_edits, pin_words = pin_loaders(targets)
    return (
        non_blocking.proposal(
            ", ".join(("copies to the device do not block", *pin_words)),
            Wrap("torch.Tensor.to", "non-blocking"),
            *pin_edits,
            applicability=Applicability.IDENTICAL,
            risk="wrong if the script writes into pinned memory of its own during the copy",
        ),
    )


def pin_loaders(loaders: tuple[Loader, ...]) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """Return the edits that make these loaders pin, if they do not, and their summaries."""
    unpinned = [loader for loader in loaders if not loader.pin_memory]
    edits = dict.fromkeys(
        SetArgument(LOADER, "pin_memory", value=True, where=loader.location) for loader in unpinned
    )
    words = dict.fromkeys(
        f"pin_memory False → True at {name_line(loader.location)}" for loader in unpinned
    )
    return tuple(edits), tuple(words)
