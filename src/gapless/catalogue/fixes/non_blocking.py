"""Copies to the device that do not wait."""

from gapless.catalogue import examples
from gapless.catalogue.choosing import select_loaders, name_line, uses_cuda
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.fixes.pin_memory import find_pin_obstacle
from gapless.catalogue.targets import LOADER
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument, Wrap
from gapless.model.facts import Facts, Loader


@fix(
    "non-blocking",
    since="0.1",
    cases=[
        Case(
            "Batches in ordinary memory",
            examples.gpu(),
            "same: copies to the device do not wait, pin_memory False → True at train.py:41",
            edits=(
                Wrap("torch.Tensor.to", "non-blocking"),
                SetArgument(LOADER, "pin_memory", value=True, where=examples.LOADER_LINE),
            ),
        ),
        Case(
            "Pinned ones",
            examples.gpu(examples.loader(pin_memory=True)),
            "same: copies to the device do not wait",
            edits=(Wrap("torch.Tensor.to", "non-blocking"),),
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
def non_blocking(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let copies of pinned tensors to the device run while the host goes on.

    ``.to(device)`` and ``.cuda()`` of tensors in pinned memory get ``non_blocking=True``; loaders
    that do not pin are made to. Copies back to the host go on to wait.

    ## Precondition
    A device, and batches that can be pinned.

    ## Safety
    The same values: a loader makes each batch anew. Only a script that writes into pinned memory of
    its own, right after copying from it, would copy what it writes.
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
            ", ".join(("copies to the device do not wait", *pin_words)),
            Wrap("torch.Tensor.to", "non-blocking"),
            *pin_edits,
            applicability=Applicability.IDENTICAL,
            risk="wrong where the script writes into pinned memory of its own that is being copied",
        ),
    )


def pin_loaders(loaders: tuple[Loader, ...]) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """Return the edits that let these loaders pin, where they do not, and their summaries."""
    unpinned = [loader for loader in loaders if not loader.pin_memory]
    edits = dict.fromkeys(
        SetArgument(LOADER, "pin_memory", value=True, where=loader.location) for loader in unpinned
    )
    words = dict.fromkeys(f"pin_memory False → True at {name_line(loader.location)}" for loader in unpinned)
    return tuple(edits), tuple(words)
