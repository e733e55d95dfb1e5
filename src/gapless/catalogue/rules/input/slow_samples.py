"""Code of the data set that makes batches late."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.samples.sample_cache import request_sample_cache
from gapless.catalogue.queries.input.stages import detect_slow_stage
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection

_MANUAL_REMEDY: Final = (
    "Do beforehand, and store, what is the same in each epoch; let NumPy or torch do for a whole "
    "array what is a loop in Python; parse text once into columns (Arrow, Parquet, arrays)."
)


@rule(
    "G112",
    "slow-samples",
    figures="""
    the_loader = loader(num_workers=2, prefetch_factor=2)
    restarted_loader = loader(num_workers=2, prefetch_factor=2, iterations=5)
    free_loader = loader(num_workers=2, prefetch_factor=2)
    # Python arithmetic on every sample, two processors
    > The data set's own code takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step
      could take 22.6 ms, with 2 workers 182.6 ms at best.
    gpu(the_loader, machine(cpus=2))
    busy.math 10.0, idle.data.other 90.0
    example_use(the_loader, {"other": 90.0}, example_workers(2, {"other": 5.0, "collate": 0.5}))
    # Statistics of the whole table for every sample, on the processors that train
    > The data set's own code takes 99 % of making a batch (96.0 ms of 96.6 ms): without it a step
      could take 48.2 ms, with 2 workers 94.9 ms at best.
    cpu(the_loader)
    busy.math 90.0, idle.data.hand-over 10.0
    example_use(the_loader, {"hand-over": 10.0}, example_workers(2, {"other": 1.5, "collate": 0.01},
      on_cpu=0.5, run_queue=0.5, blocked=0.0))
    # More workers would keep up
    gpu(free_loader)
    busy.math 60.0, idle.data.other 40.0
    example_use(free_loader, {"other": 40.0}, example_workers(2, {"other": 5.0, "collate": 0.5}))
    # Each worker reads a table on first use, and workers are restarted each epoch
    gpu(restarted_loader, machine(cpus=2))
    busy.math 10.0, idle.data.other 90.0
    example_use(restarted_loader, {"start-up": 30.0, "other": 60.0}, example_workers(2, {"other":
      5.0, "collate": 0.5}, fetch_median_ns=40_000_000), restart_ns=5 * 200_000_000,
      first_ns=1_200_000_000)
    # Nobody waits for it
    gpu(the_loader, machine(cpus=2))
    busy.math 99.8, idle.data.hand-over 0.2
    example_use(the_loader, {"hand-over": 0.2}, example_workers(2, {"other": 5.0, "collate": 0.5}))
    """,
)
def slow_samples(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples whose own code is slow, where more workers do not make up for it.

    ## Why it costs time
    What ``__getitem__`` or the generator does itself (parsing, loops, arithmetic in Python) is done
    for each sample and epoch, by one thread of each worker. If all processors are busy with it and
    the training still waits, only less of it helps.

    ## How it is measured
    It is the remainder of each fetch after reading, decoding, transforms, tokenising and collating,
    as far as the recorder knows them, are subtracted.

    If most of the waits are at the beginning of epochs, with new workers, or if finished batches
    wait behind a late one, other rules apply: then no stage of every fetch is the cause.

    A stage is a cause if a step without it would be shorter than one with as many workers as the
    processors can feed. Both are lower bounds: the longest of the work between batches plus a
    hand-over, the time of the workers, and that of all processors. Of the stage, what it takes to
    get samples out of a list remains; of torch's ``TensorDataset``, rows of two tensors. Samples
    that take up to twice as long as these are no cause in less than a tenth of a step.

    If the training computes on the same processors and makes its batches itself, workers gain less
    than that bound: there the stage is also a cause, unless workers would be a fifth faster at
    best.
    """
    words = ("other", _MANUAL_REMEDY)
    return detect_slow_stage(
        slow_samples, evidence, loader, words=words, helps=request_sample_cache
    )
