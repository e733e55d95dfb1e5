"""G108."""

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
_STEP: Final = {"busy.math": 10.0, "idle.data.augment": 90.0}
_BY_HAND: Final = (
    "Do on the GPU, on whole batches, what can be done there (normalising, flips, colour: "
    "torchvision v2, kornia); crop before resizing; keep samples uint8 until they are on the GPU; "
    "take cheaper interpolation, or do once and store what is not random."
)


@rule(
    "G108",
    "augment-bound",
    since="0.1",
    figures=[
        Figure(
            "Blur and colour on every picture, two processors",
            "Augmenting takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                _STEP,
                used(_WORKERS, {"augment": 90.0}, made_by(2, {"augment": 5.0, "decode": 0.5})),
            ),
        ),
        Figure(
            "More workers would keep up",
            None,
            seen(
                gpu(_FREE),
                {"busy.math": 60.0, "idle.data.augment": 40.0},
                used(_FREE, {"augment": 40.0}, made_by(2, {"augment": 5.0, "decode": 0.5})),
            ),
        ),
        Figure(
            "Nobody waits for it",
            None,
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                used(_WORKERS, {"hand-over": 0.2}, made_by(2, {"augment": 5.0, "decode": 0.5})),
            ),
        ),
    ],
)
def augment_bound(seen: Seen, loader: Loader) -> Loss | None:
    """Recognise transforms that take long, where workers side by side do not make up for it.

    ## Why it costs time
    Random crops, resizing, blur and colour changes run on the CPU for each sample and epoch. When
    all processors are at it and the training still waits, only cheaper transforms help.

    ## How it is measured
    The recorder times the calls of transforms (torchvision, albumentations and their like) inside
    each fetch.

    A stage is a cause where a step without it would be shorter than with as many workers as the
    processors feed. Both are bounds: the work between batches with a hand-over, the workers, and
    all processors together. What it takes to write the batch once is left of the stage.

    Beside a training that computes on the same processors, and makes its batches itself, workers
    do not give what they may: there it is one, too, unless they would be a fifth faster at best.
    """
    return stage_bound(augment_bound, seen, loader, words=("augment", _BY_HAND))
