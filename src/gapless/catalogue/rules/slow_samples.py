"""G112."""

from typing import Final

from gapless.catalogue.examples import cpu, gpu, loader, machine
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of
from gapless.catalogue.seen_parts import example_workers, example_use
from gapless.catalogue.staged import detect_slow_stage
from gapless.model.facts import Loader
from gapless.model.finding import Detection
from gapless.model.seen import Evidence

_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_RESTARTED_LOADER: Final = loader(num_workers=2, prefetch_factor=2, iterations=5)
_FREE_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_STEP: Final = {"busy.math": 10.0, "idle.data.other": 90.0}
_MANUAL_REMEDY: Final = (
    "Do beforehand, and store, what is the same in each epoch; let NumPy or torch do for a whole "
    "array what is a loop in Python; parse text once into columns (Arrow, Parquet, arrays)."
)


@rule(
    "G112",
    "slow-samples",
    since="0.1",
    figures=[
        RuleFigure(
            "Python arithmetic on every sample, two processors",
            "The data set's own code takes 91 % of making a batch (320.0 ms of 352.0 ms): "
            "without it a step could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(_LOADER, {"other": 90.0}, example_workers(2, {"other": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "Statistics of the whole table for every sample, on the processors that train",
            "The data set's own code takes 99 % of making a batch (96.0 ms of 96.6 ms): "
            "without it a step could take 49.3 ms, with 2 workers 94.9 ms at best.",
            evidence_of(
                cpu(_LOADER),
                {"busy.math": 90.0, "idle.data.hand-over": 10.0},
                example_use(
                    _LOADER,
                    {"hand-over": 10.0},
                    example_workers(
                        2, {"other": 1.5, "collate": 0.01}, on_cpu=0.5, run_queue=0.5, blocked=0.0
                    ),
                ),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.other": 40.0},
                example_use(_FREE_LOADER, {"other": 40.0}, example_workers(2, {"other": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "Each worker reads a table when it is first asked, and workers start anew each epoch",
            None,
            evidence_of(
                gpu(_RESTARTED_LOADER, machine(cpus=2)),
                _STEP,
                example_use(
                    _RESTARTED_LOADER,
                    {"start-up": 30.0, "other": 60.0},
                    example_workers(2, {"other": 5.0, "collate": 0.5}, fetch_median_ns=40_000_000),
                    restart_ns=5 * 200_000_000,
                    first_ns=1_200_000_000,
                ),
            ),
        ),
        RuleFigure(
            "Nobody waits for it",
            None,
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                example_use(_LOADER, {"hand-over": 0.2}, example_workers(2, {"other": 5.0, "collate": 0.5})),
            ),
        ),
    ],
)
def slow_samples(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples whose own code is slow, where workers side by side do not make up for it.

    ## Why it costs time
    What ``__getitem__`` or the generator does itself (parsing, loops, arithmetic in Python) is done
    for each sample and epoch, by one thread of each worker. When all processors are at it and the
    training still waits, only less of it helps.

    ## How it is measured
    It is what is left of each fetch once reading, decoding, transforms, tokenising and collating,
    as far as the recorder knows them, are taken off.

    Where most of the waits lie at the beginnings of epochs, with workers that are new, or finished
    batches lie behind a late one, other rules speak: no stage of every fetch is the cause then.

    A stage is a cause where a step without it would be shorter than with as many workers as the
    processors feed. Both are bounds: the work between batches with a hand-over, the workers, and
    all processors together. What it takes to write the batch once is left of the stage.

    Beside a training that computes on the same processors, and makes its batches itself, workers
    do not give what they may: there it is one, too, unless they would be a fifth faster at best.
    """
    return detect_slow_stage(slow_samples, evidence, loader, words=("other", _MANUAL_REMEDY))
