"""Decode JPEG files by another library than Pillow's own."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "jpeg-decoder"
_LIBRARIES: Final = ("simplejpeg", "opencv", "turbojpeg", "torchvision")


@fix(
    NAME,
    value="LIBRARY",
    stages=("decode",),
    cases="""
    installed = ("simplejpeg", "torchvision")
    # simplejpeg is installed, eight workers
    > risky: JPEG files of train.py:41 are decoded by simplejpeg
    cpu(worker_loader(decoders=installed))
    Wrap(LOADER, NAME, {"library": "simplejpeg"}, LOADER_LINE)
    # torchvision is asked for
    > risky: JPEG files of train.py:41 are decoded by torchvision
    cpu(worker_loader(decoders=installed)), Option(value="torchvision")
    # OpenCV is asked for, which is not installed
    > refused: opencv is not installed where train.py:41 runs: of such libraries, there are
      simplejpeg, torchvision
    cpu(worker_loader(decoders=installed)), Option(value="opencv")
    # None is installed
    > refused: none of simplejpeg, opencv, turbojpeg, torchvision is installed where train.py:41
      runs
    cpu(worker_loader(decoders=("dali",)))
    # Pillow is not in use
    > refused: Pillow was not seen in the process of train.py:41: it decodes nothing there
    cpu(worker_loader())
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    cpu(loader(decoders=installed))
    """,
)
def jpeg_decoder(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Decode JPEG files by simplejpeg, OpenCV, TurboJPEG or torchvision in place of Pillow.

    In the workers, what ``PIL.Image.open`` gives is decoded by the library, on the CPU, when its
    pixels are asked for. It is a picture of Pillow's in all else: transforms, crops and sizes are
    what they were. Without a value, the first of these that is installed is taken; which is fastest
    on your files, ``gapless data`` measures.

    ## Precondition
    A loader with workers, a data set whose files are opened by Pillow, and the library where the
    training runs. Files that are no JPEG, that are not RGB (grey, or of four channels), that are
    cut off or that the library cannot decode are decoded by Pillow, as ever. A picture is not
    turned by what its EXIF says: Pillow does not do that either.

    ## Safety
    Risky: other pixels, by as much as the library rounds otherwise. Each worker compares its first
    picture with Pillow's; a trial says how far it is off. If that is more than 2 of 255 on
    average, Pillow decodes as ever, and the trial is refused.
    """
    if option.value is not None and option.value not in _LIBRARIES:
        raise UsageError(f"jpeg-decoder={option.value}: there are {', '.join(_LIBRARIES)}")
    return propose_for_loaders(
        jpeg_decoder, facts, option, lambda loader: _propose(loader, option.value)
    )


def find_decoder_obstacle(loader: Loader, library: str | None = None) -> str | None:
    """Return why no other library can decode its files; ``None``: no reason is known."""
    line_ref = name_line(loader.location)
    if not loader.num_workers:
        return f"the loader at {line_ref} has no workers: first let there be some, more-workers"
    if loader.decoders is None:
        return f"Pillow was not seen in the process of {line_ref}: it decodes nothing there"
    decoders = _list_libraries(loader)
    if not decoders:
        return f"none of {', '.join(_LIBRARIES)} is installed where {line_ref} runs"
    if library not in (None, *decoders):
        installed = ", ".join(decoders)
        return (
            f"{library} is not installed where {line_ref} runs: of such libraries, there are "
            f"{installed}"
        )
    return None


def _list_libraries(loader: Loader) -> list[str]:
    return [library for library in loader.decoders or () if library in _LIBRARIES]


def _propose(loader: Loader, choice: str | None) -> Proposal:
    obstacle = find_decoder_obstacle(loader, choice)
    if obstacle is not None:
        return jpeg_decoder.refusal(obstacle, loader.location)
    library = choice or _list_libraries(loader)[0]
    return jpeg_decoder.proposal(
        f"JPEG files of {name_line(loader.location)} are decoded by {library}",
        Wrap(LOADER, NAME, {"library": library}, loader.location),
        applicability=Applicability.RISKY,
        risk="libraries round otherwise: pixels may differ a little",
        location=loader.location,
    )
