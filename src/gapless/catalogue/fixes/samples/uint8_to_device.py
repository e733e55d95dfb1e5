"""Send pictures to the device as bytes."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "uint8-to-device"
_LATER: Final = "FloatsLater"  # what the part puts at the end


@fix(
    PART,
    stages=("augment", "collate", "hand-over"),
    cases="""
    pipeline = ("RandomResizedCrop", "ToTensor", "Normalize")
    # A pipeline that ends with ToTensor and Normalize
    > same: ToTensor, Normalize of train.py:41 are done on the device
    gpu(loader(pipeline=pipeline, to_floats=2)), Wrap(LOADER, PART, {}, LOADER_LINE)
    # Floats are needed by a transform after them
    > refused: the pipeline of train.py:41 ends with RandomErasing, which needs floats
    gpu(loader(pipeline=(*pipeline, "RandomErasing"), to_floats=0))
    # No transforms of torchvision's
    > refused: no pipeline of torchvision transforms was seen in Images
    gpu()
    # Done already
    > nothing to change: pictures of train.py:41 are sent as bytes already
    gpu(loader(pipeline=("RandomResizedCrop", _LATER), to_floats=0))
    # No device
    > refused: no device was used: nothing is copied to one
    cpu(loader(pipeline=pipeline, to_floats=2))
    """,
)
def uint8_to_device(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Hand pictures over and copy them as bytes; make floats and normalise them on the device.

    ``ToTensor`` and ``Normalize`` make four bytes of each byte in a worker, which are collated,
    handed over, pinned and copied. With ``gapless.parts.send_uint8`` the data set's pipeline ends
    before them: its pictures stay bytes until the training copies a batch to the device, where all
    of the batch becomes floats at once.

    ## Precondition
    A device, and a data set whose pipeline of torchvision transforms (``Compose``, of v1 or v2)
    ends with ``ToTensor``, or ``PILToTensor`` or ``ToImage`` with ``ConvertImageDtype`` or
    ``ToDtype``, and any number of ``Normalize``.

    ## Safety
    The same values to the bit: what becomes of each of the 256 bytes is found by these transforms
    themselves, and looked up on the device. Until it is there, a batch is a ``Uint8Picture``, a
    tensor of float32 in all that is asked of it: code of the data set, of a collate function or of
    the loop that computes with it on the host gets the floats, made there as ever.
    """
    if not uses_cuda(facts):
        return (uint8_to_device.refusal("no device was used: nothing is copied to one"),)
    return propose_for_loaders(uint8_to_device, facts, option, _propose)


def _propose(loader: Loader) -> Proposal:
    line_ref, pipeline = name_line(loader.location), loader.pipeline or ()
    if not pipeline:
        dataset = loader.dataset.rpartition(".")[2]
        reason = f"no pipeline of torchvision transforms was seen in {dataset}"
        return uint8_to_device.refusal(reason, loader.location)
    if pipeline[-1] == _LATER:
        reason = f"pictures of {line_ref} are sent as bytes already"
        return uint8_to_device.no_change(reason, loader.location)
    if not loader.to_floats:
        reason = f"the pipeline of {line_ref} ends with {pipeline[-1]}, which needs floats"
        return uint8_to_device.refusal(reason, loader.location)
    names = ", ".join(pipeline[-loader.to_floats :])
    return uint8_to_device.proposal(
        f"{names} of {line_ref} are done on the device",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
