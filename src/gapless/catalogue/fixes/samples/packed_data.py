"""Read the samples of a loader from few large files that ``gapless pack`` wrote."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.errors import UsageError
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "packed-data"


@fix(
    PART,
    value="TARGET",
    cases="""
    # A data set that was packed
    > same: samples at train.py:41 are read from photos.packed, not by Images
    cpu(), Option("photos.packed"), Wrap(LOADER, PART, {"path": "photos.packed"}, LOADER_LINE)
    # Nothing was packed yet
    > refused: gapless pack writes the samples of Images first: then packed-data=TARGET, with the
      folder that it wrote
    cpu()
    # A stream
    > refused: Images is an IterableDataset: it has no samples by index
    cpu(loader(iterable=True)), Option("photos.packed")
    """,
)
def packed_data(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Read samples from what ``gapless pack`` wrote of the data set, in its folder TARGET.

    With ``gapless.parts.packed_loader.read_packed`` the data set of the loader, or the one that its
    subset is of, is replaced by ``PackedDataset(TARGET)`` with the same transforms. The sampler,
    its order, the workers and all else stay.

    ## Precondition
    ``gapless pack`` has packed the same data set, and a map-style data set that has a ``transform``
    like torchvision's, or none. It gains where steps wait for reads: many small files on a network
    drive, a disk that seeks, a cold cache. The data set is still made once as before, since its
    transforms and its samples are looked at.

    ## Safety
    The same samples in the same order, to the bit. Three of them are made both ways when the loader
    is first used, from the same random seeds: if they differ, a trial says so and changes nothing,
    and the written line raises an error. Nothing notices that the source changes later.
    """
    if option.value is not None and not {"/", "."} & set(option.value):
        raise UsageError(
            f"{PART}={option.value}: a folder is meant that gapless pack wrote, with its suffix or "
            f"a slash: ./{option.value}"
        )
    return propose_for_loaders(
        packed_data, facts, option, lambda loader: _propose(loader, option.value)
    )


def _propose(loader: Loader, target: str | None) -> Proposal:
    dataset = short_name(loader.dataset)
    if loader.iterable:
        reason = f"{dataset} is an IterableDataset: it has no samples by index"
        return packed_data.refusal(reason, loader.location)
    if not target:
        reason = (
            f"gapless pack writes the samples of {dataset} first: then packed-data=TARGET, with "
            "the folder that it wrote"
        )
        return packed_data.refusal(reason, loader.location)
    return packed_data.proposal(
        f"samples at {name_line(loader.location)} are read from {target}, not by {dataset}",
        Wrap(LOADER, PART, {"path": target}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
