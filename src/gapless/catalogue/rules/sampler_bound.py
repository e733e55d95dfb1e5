"""G114."""

from typing import Final

from gapless.catalogue.examples import cpu, fed, gpu, loader
from gapless.catalogue.loading import evidence, waited
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.windowed import of_step
from gapless.model.change import Feed
from gapless.model.edit import Where
from gapless.model.facts import Loader
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.replay.service import SAMPLER

_LEAST: Final = 0.02  # of the step
_USUAL_NS: Final = 50_000  # [G] a batch: indices that were drawn beforehand are taken from a list
_AT: Final = Where("train.py", 30, "__iter__")
_HOME: Final = loader(sampler=_AT)
_FED: Final = fed(sampler=_AT)
_BY_HAND: Final = (
    "Choose the samples of a whole epoch at its start, by one call (torch.randperm, "
    "torch.multinomial, one sort), and let __iter__ give them out; keep what it is chosen by "
    "(lengths, weights) in one array, and do not read samples for it."
)


@rule(
    "G114",
    "sampler-bound",
    since="0.1",
    figures=[
        Figure(
            "A weighted draw over the whole table for each sample",
            "Choosing the samples of a batch takes 80.0 ms of each 100.0 ms step, before any of "
            "them is made, on the training thread: workers would not take it over.",
            seen(
                cpu(_HOME),
                {"busy.math": 12, "idle.data.sampler": 80, "idle.data.other": 8},
                used(_HOME, {"sampler": 80.0, "other": 8.0}, made_by(0, {"other": 0.1})),
            ),
        ),
        Figure(
            "Batches of like length, sorted anew for each batch, beside workers",
            "Choosing the samples of a batch takes 40.0 ms of each 100.0 ms step, before any of "
            "them is made, on the training thread: workers do not take it over.",
            seen(
                gpu(_FED),
                {"busy.math": 58, "idle.data.sampler": 40, "idle.data.hand-over": 2},
                used(_FED, {"sampler": 40.0, "hand-over": 2.0}, made_by(8, {"decode": 0.1})),
            ),
        ),
        Figure(
            "A permutation is drawn at the start of an epoch",
            None,
            seen(
                gpu(_FED),
                {"busy.math": 98, "idle.data.sampler": 0.2, "idle.data.hand-over": 1.8},
                used(_FED, {"sampler": 0.2, "hand-over": 1.8}, made_by(8, {"decode": 0.1})),
            ),
        ),
    ],
)
def sampler_bound(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise a sampler that takes long to choose the samples of a batch.

    ## Why it costs time
    A sampler (or batch sampler) runs in the training process, with any number of workers: it
    chooses the indices, workers make the samples. One that draws from all weights, sorts all
    lengths, or reads data for each batch stops the training each time.

    ## How it is measured
    The recorder times each call by which a loader asks its sampler for the indices of a batch;
    what takes less than 0.1 ms is not noted. It is a cause from a fiftieth of the step on. What is
    left when indices are drawn beforehand is taken to be 0.05 ms a batch.
    """
    one = waited(seen, loader)
    step = seen.step_ns
    if one is None or not step or one.sampler_ns < max(_USUAL_NS, _LEAST * one.step_ns):
        return None
    spent = one.sampler_ns
    batches = max(1, round(step / one.step_ns))
    hands = "do not" if loader.num_workers else "would not"
    return sampler_bound.loss(
        f"Choosing the samples of a batch takes {of_step(seen, spent * batches)}, before any of "
        f"them is made, on the training thread: workers {hands} take it over.",
        Feed(loader.id, stages={SAMPLER: _USUAL_NS / spent}),
        where=_hottest(seen) or loader.sampler or loader.where,
        evidence=(*evidence(one), Measure("choosing samples, a batch", spent, "ns")),
        no_remedy=_BY_HAND,
    )


def _hottest(seen: Seen) -> Where | None:
    """Give the line of the user's at which samples were seen to be chosen most often."""
    recorded = seen.study.recorded
    every = () if recorded is None else recorded.loading_lines
    mine = [one for one in every if one.thread == "choosing"]
    top = max(mine, key=lambda one: one.share, default=None)
    return None if top is None else Where(top.file, top.line, top.function)
