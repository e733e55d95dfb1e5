"""Decode pictures once."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "picture-cache"


@fix(
    NAME,
    stages=("read", "decode"),
    cases="""
    # Pictures that are cropped at random, eight workers
    > same: pictures of train.py:41 are decoded once, and kept in memory
    cpu(worker_loader(decoders=())), Wrap(LOADER, NAME, {}, LOADER_LINE)
    # Pillow is not in use
    > refused: Pillow was not seen in the process of train.py:41: it decodes nothing there
    cpu(worker_loader())
    # No workers
    > refused: the loader at train.py:41 has no workers: first let there be some, more-workers
    cpu(loader(decoders=()))
    # Workers that are spawned
    > refused: workers of train.py:41 are started by spawn, and share no memory
    cpu(worker_loader(decoders=(), start_method="spawn"))
    # A stream
    > refused: Images is an IterableDataset: how many pictures it has is not known
    cpu(worker_loader(decoders=(), iterable=True))
    """,
)
def picture_cache(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Keep the pixels that Pillow decoded, in memory that workers share; crops stay random.

    In the workers, what ``PIL.Image.open`` gives is decoded when its pixels are asked for, as
    ever, and the pixels are kept: at most a half of the memory that is free. From the second epoch
    on they are copied from there. All that is done with a picture afterwards is done as ever, with
    the same random numbers.

    A trial fills the cache before it measures, so that it shows what later epochs gain. The first
    epoch gains nothing, and pays for copying each picture once more. Pixels take far more room
    than files do: the trial says how many pictures fitted.

    ## Precondition
    Linux, a loader with workers that are forked, and a data set with samples by number whose files
    (JPEG, PNG, BMP; grey, RGB or RGBA) are opened by Pillow.

    ## Safety
    The same pixels to the bit. A file is known by its device, number, size and time: one that is
    written anew is decoded anew. Pictures of which a smaller decoding was asked (``draft``) are
    left to Pillow.
    """
    return propose_for_loaders(picture_cache, facts, option, _propose)


def find_picture_obstacle(loader: Loader) -> str | None:
    """Return why pictures cannot be kept; ``None``: no reason is known."""
    line_ref = name_line(loader.location)
    if not loader.num_workers:
        return f"the loader at {line_ref} has no workers: first let there be some, more-workers"
    if loader.iterable:
        dataset = short_name(loader.dataset)
        return f"{dataset} is an IterableDataset: how many pictures it has is not known"
    if loader.decoders is None:
        return f"Pillow was not seen in the process of {line_ref}: it decodes nothing there"
    if loader.start_method not in (None, "fork"):
        return f"workers of {line_ref} are started by {loader.start_method}, and share no memory"
    return None


def _propose(loader: Loader) -> Proposal:
    obstacle = find_picture_obstacle(loader)
    if obstacle is not None:
        return picture_cache.refusal(obstacle, loader.location)
    return picture_cache.proposal(
        f"pictures of {name_line(loader.location)} are decoded once, and kept in memory",
        Wrap(LOADER, NAME, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
