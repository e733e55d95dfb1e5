"""Send pictures to the device as bytes where a data set's own code makes floats of them."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "uint8-by-hand"


@fix(
    NAME,
    cases=lambda: [
        Case(
            "x.float() / 255, eight workers",
            example_facts.gpu(example_facts.worker_loader(by_hand=True)),
            "same: floats that Images makes of bytes are made on the device",
            edits=(Wrap(LOADER, NAME, {}, example_facts.LOADER_LINE),),
        ),
        Case(
            "Its code never divides by 255",
            example_facts.gpu(example_facts.worker_loader(by_hand=False)),
            "refused: no code of Images was seen that divides by 255",
        ),
        Case(
            "A pipeline of torchvision's makes the floats",
            example_facts.gpu(
                example_facts.worker_loader(by_hand=True, pipeline=("ToTensor",), to_floats=1)
            ),
            "refused: transforms of train.py:41 make the floats: uint8-to-device",
        ),
        Case(
            "No workers",
            example_facts.gpu(example_facts.loader(by_hand=True)),
            "refused: the loader at train.py:41 has no workers: first let there be some, "
            "more-workers",
        ),
        Case(
            "No device",
            example_facts.cpu(example_facts.worker_loader(by_hand=True)),
            "refused: no device was used: nothing is copied to one",
        ),
    ],
)
def uint8_by_hand(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Hand pictures over as bytes where ``x.float() / 255`` in the data set makes floats of them.

    In the workers, a tensor of bytes by channel, row and column stays bytes when ``float()``,
    ``to(torch.float32)`` or a division makes floats of it. What is then added, subtracted,
    multiplied or divided by numbers, or by one number for each channel, is done to the 256 values
    that a byte may have, and looked up on the device. So a mean and a deviation written by hand,
    and torchvision's functions, are done there too.

    ## Precondition
    A device, a loader with workers, and a data set whose code does this with tensors of torch;
    what NumPy computes is not seen. Pictures have one to four channels, first of all dimensions.

    ## Safety
    The same values to the bit: the table is made by the same operations. Whatever else is asked of
    such a picture (a product with another one, a slice, NumPy) makes floats of it there and then.
    """
    if not uses_cuda(facts):
        return (uint8_by_hand.refusal("no device was used: nothing is copied to one"),)
    return propose_for_loaders(uint8_by_hand, facts, option, _propose)


def find_float_obstacle(loader: Loader) -> str | None:
    """Return why its pictures cannot stay bytes; ``None``: no reason is known."""
    line_ref = name_line(loader.location)
    if not loader.num_workers:
        return f"the loader at {line_ref} has no workers: first let there be some, more-workers"
    if loader.to_floats:
        return f"transforms of {line_ref} make the floats: uint8-to-device"
    if not loader.by_hand:
        return f"no code of {short_name(loader.dataset)} was seen that divides by 255"
    return None


def _propose(loader: Loader) -> Proposal:
    obstacle = find_float_obstacle(loader)
    if obstacle is not None:
        return uint8_by_hand.refusal(obstacle, loader.location)
    return uint8_by_hand.proposal(
        f"floats that {short_name(loader.dataset)} makes of bytes are made on the device",
        Wrap(LOADER, NAME, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
