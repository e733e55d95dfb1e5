"""A sampler that takes long."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries.input.loaders import find_waited_loading, measure_loading
from gapless.catalogue.queries.windows import format_step_part
from gapless.model.change import LoaderChange
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure
from gapless.replay.loader.costs import SAMPLER

_MIN_STEP_SHARE: Final = 0.02  # of the step
_USUAL_NS: Final = 50_000  # a batch, assumed for indices that are taken from a list
_MANUAL_REMEDY: Final = (
    "Choose the samples of a whole epoch at its start, by one call (torch.randperm, "
    "torch.multinomial, one sort), and let __iter__ give them out; keep what it is chosen by "
    "(lengths, weights) in one array, and do not read samples for it."
)


@rule(
    "G114",
    "sampler-bound",
    figures="""
    sampler_line = Location("train.py", 30, "__iter__")
    home_loader = loader(sampler=sampler_line)
    the_worker_loader = worker_loader(sampler=sampler_line)
    # A weighted draw over the whole table for each sample
    > Choosing the samples of a batch takes 80.0 ms of each 100.0 ms step, before any of them is
      made, on the training thread: workers would not take it over.
    cpu(home_loader)
    busy.math 12, idle.data.sampler 80, idle.data.other 8
    example_use(home_loader, {"sampler": 80.0, "other": 8.0}, example_workers(0, {"other": 0.1}))
    # Batches of similar length, sorted again for each batch, with workers
    > Choosing the samples of a batch takes 40.0 ms of each 100.0 ms step, before any of them is
      made, on the training thread: workers do not take it over.
    gpu(the_worker_loader)
    busy.math 58, idle.data.sampler 40, idle.data.hand-over 2
    example_use(the_worker_loader, {"sampler": 40.0, "hand-over": 2.0}, example_workers(8,
      {"decode": 0.1}))
    # A permutation is drawn at the start of an epoch
    gpu(the_worker_loader)
    busy.math 98, idle.data.sampler 0.2, idle.data.hand-over 1.8
    example_use(the_worker_loader, {"sampler": 0.2, "hand-over": 1.8}, example_workers(8, {"decode":
      0.1}))
    """,
)
def sampler_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise a sampler that takes long to choose the samples of a batch.

    ## Why it costs time
    A sampler (or batch sampler) runs in the training process, with any number of workers: it
    chooses the indices, workers make the samples. One that draws from all weights, sorts all
    lengths, or reads data for each batch blocks the training each time.

    ## How it is measured
    The recorder times each call by which a loader asks its sampler for the indices of a batch;
    calls of less than 0.1 ms are not recorded. It is a cause from a fiftieth of the step on. With
    indices drawn beforehand, 0.05 ms a batch is assumed to remain.
    """
    loading = find_waited_loading(evidence, loader)
    step_ns = evidence.step_ns
    if (
        loading is None
        or not step_ns
        or loading.sampler_ns < max(_USUAL_NS, _MIN_STEP_SHARE * loading.step_ns)
    ):
        return None
    spent_ns = loading.sampler_ns
    n_batches = max(1, round(step_ns / loading.step_ns))
    verb = "do not" if loader.num_workers else "would not"
    return sampler_bound.detection(
        "Choosing the samples of a batch takes "
        f"{format_step_part(evidence, spent_ns * n_batches)}, before any of them is made, on the "
        f"training thread: workers {verb} take it over.",
        LoaderChange(loader.id, stages={SAMPLER: _USUAL_NS / spent_ns}),
        location=_hottest_line(evidence) or loader.sampler or loader.location,
        measures=(*measure_loading(loading), Measure("choosing samples, a batch", spent_ns, "ns")),
        no_remedy=_MANUAL_REMEDY,
    )


def _hottest_line(evidence: Evidence) -> Location | None:
    """Return the user's line that was sampled most while samples were chosen."""
    lines = evidence.loading_lines
    sampler_lines = [line for line in lines if line.thread == "choosing"]
    top = max(sampler_lines, key=lambda line: line.share, default=None)
    return None if top is None else Location(top.file, top.line, top.function)
