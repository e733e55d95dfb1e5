"""Ask the system for the files of a batch at once."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

PART: Final = "read-ahead"


@fix(
    PART,
    stages=("read",),
    cases="""
    # A list of files
    > same: files of a batch at train.py:41 are asked for at once, by Images.paths
    cpu(loader(files="paths")), Wrap(LOADER, PART, {}, LOADER_LINE)
    # No list of files
    > refused: Images has no list of files, one for each sample
    cpu()
    # A stream
    > refused: Images is an IterableDataset: which files come next is not known
    cpu(loader(iterable=True, files="paths"))
    """,
)
def read_ahead(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Tell the system which files a batch is made of, before the first of them is read.

    A data set reads one file after another, and waits for each. With
    ``gapless.parts.read_ahead.read_ahead`` whoever makes a batch opens its files first and tells
    the system that they will be read (``posix_fadvise``): the reads run side by side, while the
    first samples are made.

    ## Precondition
    Linux, and a map-style data set with a list of files, one for each sample, in the order of its
    indices (``self.files[index]``, or ``self.samples[index][0]`` as torchvision has it). It gains
    where files come from a disk or a network, and nothing where they are in memory. Some network
    file systems ignore such advice.

    ## Safety
    The same samples, in the same order. Each file is opened once more. If indices mean other files
    than the list has, files are read for nothing.
    """
    return propose_for_loaders(read_ahead, facts, option, _propose)


def _propose(loader: Loader) -> Proposal:
    dataset = short_name(loader.dataset)
    if loader.iterable:
        reason = f"{dataset} is an IterableDataset: which files come next is not known"
        return read_ahead.refusal(reason, loader.location)
    if loader.files is None:
        reason = f"{dataset} has no list of files, one for each sample"
        return read_ahead.refusal(reason, loader.location)
    line_ref = name_line(loader.location)
    return read_ahead.proposal(
        f"files of a batch at {line_ref} are asked for at once, by {dataset}.{loader.files}",
        Wrap(LOADER, PART, {}, loader.location),
        applicability=Applicability.IDENTICAL,
        location=loader.location,
    )
