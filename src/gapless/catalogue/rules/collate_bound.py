"""G110."""

from typing import Final

from gapless.catalogue.examples import gpu, loader, machine
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import made_by, used
from gapless.catalogue.staged import stage_bound
from gapless.model.facts import Loader
from gapless.model.finding import Loss
from gapless.model.seen import Seen

_WORKERS: Final = loader(num_workers=2, prefetch_factor=2)
_FREE: Final = loader(num_workers=2, prefetch_factor=2)
_STEP: Final = {"busy.math": 10.0, "idle.data.collate": 90.0}
_BY_HAND: Final = (
    "Let samples be tensors or NumPy arrays of one type and stack them by one call (torch.stack, "
    "numpy.stack, pad_sequence); fetch whole batches by __getitems__; and reuse the memory of "
    "batches where they are large."
)


@rule(
    "G110",
    "collate-bound",
    since="0.1",
    figures=[
        Figure(
            "Lists of numbers become tensors one by one, two processors",
            "Putting samples together takes 91 % of making a batch (320.0 ms of 352.0 ms): "
            "without it a step could take 20.1 ms, with 2 workers 176.0 ms at best.",
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                _STEP,
                used(_WORKERS, {"collate": 90.0}, made_by(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
        Figure(
            "More workers would keep up",
            None,
            seen(
                gpu(_FREE),
                {"busy.math": 60.0, "idle.data.collate": 40.0},
                used(_FREE, {"collate": 40.0}, made_by(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
        Figure(
            "Nobody waits for it",
            None,
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                used(_WORKERS, {"hand-over": 0.2}, made_by(2, {"collate": 5.0, "decode": 0.5})),
            ),
        ),
    ],
)
def collate_bound(seen: Seen, loader: Loader) -> Loss | None:
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
    return stage_bound(collate_bound, seen, loader, words=("collate", _BY_HAND))
