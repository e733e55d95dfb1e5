"""Put samples of similar lengths into a batch."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.declare.selectors import name_line, propose_for_loaders
from gapless.catalogue.declare.targets import LOADER
from gapless.catalogue.declare.traps import short_name
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Loader

NAME: Final = "length-buckets"


@fix(
    NAME,
    cases="""
    # A list of texts
    > risky: batches of train.py:41 hold samples of similar lengths, by Images.sentences
    gpu(loader(texts="sentences")), Wrap(LOADER, NAME, {}, LOADER_LINE)
    # Lengths are not known before samples are made
    > refused: Images has no list of texts or rows, one for each sample
    gpu()
    # A batch sampler of the user's
    > refused: samples of train.py:41 are chosen by your own code at train.py:41
    gpu(loader(texts="sentences", sampler=LOADER_LINE))
    # A stream
    > refused: Images is an IterableDataset: which samples come next is not known
    gpu(loader(texts="sentences", iterable=True))
    """,
)
def length_buckets(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let each batch hold samples of similar lengths, so that little of it is padding.

    Of 50 batches at a time, as the sampler gives them, samples are sorted by length, cut into
    batches as large as they were, and the batches mixed. Every sample comes as often as ever.

    ## Precondition
    A map-style data set that has the texts, lists or rows that samples are made of, one for each;
    torch's own batch sampler; and a collate function that pads to the longest of its batch.

    ## Safety
    Risky: the order changes, and which samples make a batch. Gradients of a batch are then those of
    samples of one length, which training may mind; statistics of a batch, too. With several ranks,
    their batches differ in length, and they wait for the longest. The training draws the same
    random numbers.
    """
    return propose_for_loaders(length_buckets, facts, option, _propose)


def find_bucket_obstacle(loader: Loader) -> str | None:
    """Return why samples cannot be put together by length; ``None``: no reason is known."""
    dataset, line_ref = short_name(loader.dataset), name_line(loader.location)
    if loader.iterable:
        return f"{dataset} is an IterableDataset: which samples come next is not known"
    if loader.texts is None:
        return f"{dataset} has no list of texts or rows, one for each sample"
    if loader.sampler is not None:
        return f"samples of {line_ref} are chosen by your own code at {name_line(loader.sampler)}"
    return None


def _propose(loader: Loader) -> Proposal:
    obstacle = find_bucket_obstacle(loader)
    if obstacle is not None:
        return length_buckets.refusal(obstacle, loader.location)
    line_ref, dataset = name_line(loader.location), short_name(loader.dataset)
    return length_buckets.proposal(
        f"batches of {line_ref} hold samples of similar lengths, by {dataset}.{loader.texts}",
        Wrap(LOADER, NAME, {}, loader.location),
        applicability=Applicability.RISKY,
        risk="the order of samples changes, and which of them make a batch",
        location=loader.location,
    )
