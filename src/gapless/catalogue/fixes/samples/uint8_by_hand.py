"""Send pictures to the device as bytes where a data set's own code makes floats of them."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "uint8-by-hand"


@fix(
    NAME,
    stages=("augment", "collate", "hand-over"),
    cases="""
    # x.float() / 255, eight workers
    > same: floats that Images makes of bytes are made on the device
    gpu(worker_loader(by_hand=True)), Wrap(LOADER, NAME, {}, LOADER_LINE)
    # Its code never divides by 255
    > refused: no code of Images was seen that divides by 255
    gpu(worker_loader(by_hand=False))
    # A pipeline of torchvision's makes the floats
    > refused: transforms of train.py:41 make the floats: uint8-to-device
    gpu(worker_loader(by_hand=True, pipeline=("ToTensor",), to_floats=1))
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    gpu(loader(by_hand=True))
    # No device
    > refused: no device was used: nothing is copied to one
    cpu(worker_loader(by_hand=True))
    """,
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
