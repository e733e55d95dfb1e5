"""Decode JPEG files on the GPU."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders, uses_cuda
from gapless.catalogue.declare.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "decode-on-device"
_GEOMETRY: Final = frozenset(
    {
        "CenterCrop",
        "RandomCrop",
        "RandomHorizontalFlip",
        "RandomResizedCrop",
        "RandomVerticalFlip",
        "Resize",
    }
)


@fix(
    PART,
    stages=("decode", "augment", "collate"),
    cases="""
    pipeline = ("RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize")
    to_floats = 2
    colour = ("RandomResizedCrop", "ColorJitter", "ToTensor")
    # Pictures that are cropped and flipped, eight workers
    > risky: JPEG files of train.py:41 are decoded, cropped and scaled on the device
    gpu(worker_loader(pipeline=pipeline, to_floats=to_floats))
    Wrap(LOADER, PART, {}, LOADER_LINE)
    # A transform that needs pixels
    > refused: ColorJitter of train.py:41 needs decoded pixels in the worker
    gpu(worker_loader(pipeline=colour, to_floats=1))
    # A pipeline that does not end with floats
    > refused: no pipeline of train.py:41 that ends with ToTensor or Normalize was seen
    gpu(worker_loader(pipeline=pipeline[:2]))
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    gpu(loader(pipeline=pipeline, to_floats=to_floats))
    # No device
    > refused: no device was used: nothing could be decoded there
    cpu(worker_loader())
    """,
)
def decode_on_device(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let workers only read JPEG files; decode, crop and scale them on the GPU, a batch at a time.

    In the workers, ``PIL.Image.open`` gives pictures that are not decoded. Crops, sizes and flips
    are noted, from the same random numbers as ever. The batch is decoded by nvJPEG
    (``torchvision.io.decode_jpeg``) in the thread that pins batches, or where it is copied to the
    device; it is scaled there as Pillow does it, and becomes floats as by ``uint8-to-device``.

    ## Precondition
    A CUDA device, torchvision with nvJPEG, a loader with workers, and a data set whose files are
    opened by Pillow and whose pipeline of torchvision transforms only crops, resizes and flips,
    before it makes floats. Files that are no JPEG, are not RGB or are cut off are decoded by
    Pillow, in the worker, as ever. ``pin_memory=True`` is best: the training thread then decodes
    nothing.

    ## Safety
    Risky: other pixels. nvJPEG rounds and interpolates colours otherwise than Pillow's decoder; a
    trial says how far the first picture is off. Which part of which picture is shown stays the
    same, and so does scaling, to one of 255 levels. A broken file that does not look cut off is
    noticed where the batch is decoded, not in the data set. The device has to do it: its memory
    holds the decoded batches that wait.
    """
    if not uses_cuda(facts):
        return (decode_on_device.refusal("no device was used: nothing could be decoded there"),)
    return propose_for_loaders(decode_on_device, facts, option, _propose)


def find_obstacle(loader: Loader) -> str | None:
    """Return why files cannot be decoded on the device; ``None``: no reason is known."""
    line_ref, pipeline = name_line(loader.location), loader.pipeline or ()
    if not loader.num_workers:
        return f"the loader at {line_ref} has no workers: first let there be some, more-workers"
    if not loader.to_floats:
        return f"no pipeline of {line_ref} that ends with ToTensor or Normalize was seen"
    other_steps = [name for name in pipeline[: -loader.to_floats] if name not in _GEOMETRY]
    return (
        f"{other_steps[0]} of {line_ref} needs decoded pixels in the worker"
        if other_steps
        else None
    )


def _propose(loader: Loader) -> Proposal:
    obstacle = find_obstacle(loader)
    if obstacle is not None:
        return decode_on_device.refusal(obstacle, loader.location)
    return decode_on_device.proposal(
        f"JPEG files of {name_line(loader.location)} are decoded, cropped and scaled on the device",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.RISKY,
        risk="pixels of nvJPEG differ a little from those of Pillow's decoder",
        location=loader.location,
    )
