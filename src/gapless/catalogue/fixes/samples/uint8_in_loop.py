"""Copy a batch of pictures as bytes where the loop makes floats of it before the copy."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.model.edit import Applicability, FixRequest, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "uint8-in-loop"
_MIN_GROWTH: Final = 2  # bytes that are copied, by those of the batch: floats are four times


@fix(
    NAME,
    cases="""
    # Batches of bytes, x.float() / 255 in the loop
    > same: batches of train.py:41 are copied as bytes, and become floats on the device
    gpu(loader(byte_pictures=True)), Wrap(LOADER, NAME, {}, LOADER_LINE)
    # Batches of floats
    > refused: batches of train.py:41 hold no pictures as bytes
    gpu(loader(byte_pictures=False))
    # No device
    > refused: no device was used: nothing is copied to one
    cpu(loader(byte_pictures=True))
    """,
)
def uint8_in_loop(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Copy pictures as bytes where the loop makes floats of them: ``x.float() / 255``, ``.to()``.

    ``x = x.float() / 255`` on the host, or ``x.to(device, torch.float32)``, makes four bytes of
    each before they are copied. With ``ByteBatches`` (``gapless.parts.batching.byte_batches``) the
    bytes are copied. What is added, subtracted, multiplied or divided before that, by numbers or by
    one number for each channel, is done to the 256 values that a byte may have, and looked up on
    the device.

    ## Precondition
    A device, and a loader whose batches hold pictures as bytes by batch, channel, row and column.
    Where the loop copies them first and makes floats on the device, it has no effect.

    ## Safety
    The same values to the bit: the table is made by the same operations. Whatever else is asked of
    such a batch makes tensors of it, of bytes or floats, there and then.
    """
    if not uses_cuda(facts):
        return (uint8_in_loop.refusal("no device was used: nothing is copied to one"),)
    return propose_for_loaders(uint8_in_loop, facts, option, _propose)


def _propose(loader: Loader) -> Proposal:
    line_ref = name_line(loader.location)
    if not loader.byte_pictures:
        reason = f"batches of {line_ref} hold no pictures as bytes"
        return uint8_in_loop.refusal(reason, loader.location)
    return uint8_in_loop.proposal(
        f"batches of {line_ref} are copied as bytes, and become floats on the device",
        Wrap(LOADER, NAME, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )


def request_bytes_of_batches(facts: Facts, copied_bytes: float | None) -> tuple[FixRequest, ...]:
    """Return the fix where far more is copied a step than batches that are bytes hold."""
    is_possible = any(
        loader.byte_pictures
        and loader.trains
        and copied_bytes is not None
        and copied_bytes > _MIN_GROWTH * (loader.batch_bytes or copied_bytes)
        for loader in facts.loaders or ()
    )
    return (uint8_in_loop.request(),) if is_possible else ()
