"""Decode JPEG files by NVIDIA's DALI, a batch at a time, on the CPU."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.fixes.samples.decode_on_device import find_obstacle
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "decode-by-dali"


@fix(
    PART,
    stages=("decode", "augment", "collate"),
    cases="""
    seen = {"pipeline": ("Resize", "CenterCrop", "ToTensor"), "to_floats": 1}
    colour = {"pipeline": ("Resize", "ColorJitter", "ToTensor"), "to_floats": 1}
    # Pictures that are resized and cropped, eight workers
    > risky: JPEG files of train.py:41 are decoded, cropped and scaled by DALI in its workers
    cpu(worker_loader(decoders=("dali",), **seen)), Wrap(LOADER, PART, {}, LOADER_LINE)
    # DALI is not installed
    > refused: DALI is not installed where train.py:41 runs
    cpu(worker_loader(decoders=("opencv",), **seen))
    # A transform that DALI's pipeline does not have
    > refused: ColorJitter of train.py:41 needs decoded pixels in the worker
    cpu(worker_loader(decoders=("dali",), **colour))
    # Pillow is not in use
    > refused: Pillow was not seen in the process of train.py:41: it decodes nothing there
    cpu(worker_loader(**seen))
    """,
)
def decode_by_dali(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Decode, crop, scale and flip the JPEG files of a batch by DALI, in the workers.

    In the workers, ``PIL.Image.open`` gives pictures that are not decoded. What torchvision's
    transforms crop, resize and flip is noted, from the same random numbers as ever. When the batch
    is put together, a pipeline of DALI's operators for the CPU makes its pixels, which become
    floats as by ``uint8-to-device``. What that gains beside Pillow, ``gapless data`` measures.

    ## Precondition
    DALI (``nvidia-dali-cuda130`` or another of its packages; no GPU is needed), a loader with
    workers, and a data set whose files are opened by Pillow and whose pipeline of torchvision
    transforms only crops, resizes and flips, before it makes floats. Files that are no JPEG, are
    not RGB or are cut off are decoded by Pillow, as ever.

    ## Safety
    Risky: other pixels, by as much as DALI rounds otherwise. Each worker compares its first picture
    with Pillow's; a trial says how far it is off. If that is more than 2 of 255 on average, Pillow
    decodes as ever, and the trial is refused. A broken file that does not look cut off is noticed
    where the batch is put together, not in the data set.
    """
    return propose_for_loaders(decode_by_dali, facts, option, _propose)


def find_dali_obstacle(loader: Loader) -> str | None:
    """Return why DALI cannot decode its files; ``None``: no reason is known."""
    line_ref = name_line(loader.location)
    if loader.decoders is None:
        return f"Pillow was not seen in the process of {line_ref}: it decodes nothing there"
    if "dali" not in loader.decoders:
        return f"DALI is not installed where {line_ref} runs"
    return find_obstacle(loader)


def _propose(loader: Loader) -> Proposal:
    obstacle = find_dali_obstacle(loader)
    if obstacle is not None:
        return decode_by_dali.refusal(obstacle, loader.location)
    line_ref = name_line(loader.location)
    return decode_by_dali.proposal(
        f"JPEG files of {line_ref} are decoded, cropped and scaled by DALI in its workers",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.RISKY,
        risk="pixels of DALI differ a little from those of Pillow's decoder",
        location=loader.location,
    )
