"""G110."""

from typing import Final

from gapless.catalogue.examples import gpu, loader, machine
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of
from gapless.catalogue.seen_parts import example_workers, example_use
from gapless.catalogue.staged import detect_slow_stage
from gapless.model.facts import Loader
from gapless.model.finding import Detection
from gapless.model.seen import Evidence

_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_FREE_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_STEP: Final = {"busy.math": 10.0, "idle.data.collate": 90.0}
_MANUAL_REMEDY: Final = (
    "Let samples be tensors or NumPy arrays of one type and stack them by one call (torch.stack, "
    "numpy.stack, pad_sequence); fetch whole batches by __getitems__; and reuse the memory of "
    "batches where they are large."
)


@rule(
    "G110",
    "collate-bound",
    since="0.1",
    figures=[
        RuleFigure(
            "Lists of numbers become tensors one by one, two processors",
            "Putting samples together takes 91 % of making a batch (320.0 ms of 352.0 ms): "
            "without it a step could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(_LOADER, {"collate": 90.0}, example_workers(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.collate": 40.0},
                example_use(_FREE_LOADER, {"collate": 40.0}, example_workers(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
        RuleFigure(
            "Nobody waits for it",
            None,
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                example_use(_LOADER, {"hand-over": 0.2}, example_workers(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
    ],
)
def collate_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise a collate function that is slow, where workers side by side do not make up for it.

    ## Why it costs time
    Putting samples together copies each of them once. It takes long where it loops over elements in
    Python, pads by hand, or turns lists and arrays into tensors one by one; and where every batch
    asks the system for fresh shared memory.

    ## How it is measured
    The recorder times the collate function of each fetch.

    A stage is a cause where a step without it would be shorter than with as many workers as the
    processors feed. Both are bounds: the work between batches with a hand-over, the workers, and
    all processors together. What it takes to write the batch once is left of the stage.

    Beside a training that computes on the same processors, and makes its batches itself, workers
    do not give what they may: there it is one, too, unless they would be a fifth faster at best.
    """
    return detect_slow_stage(collate_bound, evidence, loader, words=("collate", _MANUAL_REMEDY))
