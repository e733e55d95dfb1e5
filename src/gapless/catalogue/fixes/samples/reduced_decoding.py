"""Decode JPEG files at a fraction of their size, where they are made smaller anyway."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "reduced-decoding"
_SHRINKING: Final = frozenset({"RandomResizedCrop", "Resize"})


@fix(
    PART,
    stages=("decode", "augment"),
    cases="""
    pipeline = ("Resize", "CenterCrop", "ToTensor")
    # Photographs that are resized, two workers
    > risky: JPEG files of train.py:41 are decoded at a fraction of their size
    cpu(worker_loader(pipeline=pipeline, decoders=())), Wrap(LOADER, PART, {}, LOADER_LINE)
    # Nothing is resized
    > refused: no transform of train.py:41 was seen that makes pictures smaller
    cpu(worker_loader(pipeline=pipeline[1:], decoders=()))
    # No pipeline of torchvision's: whether pictures become smaller was not seen
    > risky: JPEG files of train.py:41 are decoded at a fraction of their size
    cpu(worker_loader(decoders=()))
    # Pillow is not in use
    > refused: Pillow was not seen in the process of train.py:41: it decodes nothing there
    cpu(worker_loader())
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    cpu(loader(pipeline=pipeline, decoders=()))
    """,
)
def reduced_decoding(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Decode JPEG files at a half, a quarter or an eighth, where pictures are made smaller anyway.

    In the workers, ``PIL.Image.open`` gives pictures that are not decoded. Crops and sizes are
    noted; when pixels are asked for, the decoder scales while it decodes (Pillow's
    ``Image.draft``), as far as what was cropped stays at least as large as it is to be, and the
    rest is done by ``resize``.

    ## Precondition
    A loader with workers, and a data set whose files are opened by Pillow and cropped and resized
    right after, by torchvision transforms (``Resize``, ``RandomResizedCrop``) or by itself. It
    takes effect on JPEG files of which at least twice as many pixels are cropped, to each side, as
    are left: on photographs at full size.

    ## Safety
    Risky: other pixels, since decoders scale otherwise than ``resize``; a trial says how far the
    first picture is off. Which part of which picture is shown stays the same.
    """
    return propose_for_loaders(reduced_decoding, facts, option, _propose)


def find_reduction_obstacle(loader: Loader) -> str | None:
    """Return why files cannot be decoded at a fraction; ``None``: no reason is known."""
    line_ref = name_line(loader.location)
    if not loader.num_workers:
        return f"the loader at {line_ref} has no workers: first let there be some, more-workers"
    if loader.decoders is None:
        return f"Pillow was not seen in the process of {line_ref}: it decodes nothing there"
    if loader.pipeline is not None and not _SHRINKING & set(loader.pipeline):
        return f"no transform of {line_ref} was seen that makes pictures smaller"
    return None


def _propose(loader: Loader) -> Proposal:
    obstacle = find_reduction_obstacle(loader)
    if obstacle is not None:
        return reduced_decoding.refusal(obstacle, loader.location)
    return reduced_decoding.proposal(
        f"JPEG files of {name_line(loader.location)} are decoded at a fraction of their size",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.RISKY,
        risk="decoders scale otherwise than resize does: pixels differ a little",
        location=loader.location,
    )
