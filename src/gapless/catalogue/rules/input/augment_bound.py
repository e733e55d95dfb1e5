"""Transforms that make batches late."""

from typing import Final

from gapless.catalogue.declare.rule import RuleFigure, rule
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import gpu, loader, machine
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.catalogue.queries.input.stages import detect_slow_stage
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.finding import Detection

_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_FREE_LOADER: Final = loader(num_workers=2, prefetch_factor=2)
_STEP: Final = {"busy.math": 10.0, "idle.data.augment": 90.0}
_MANUAL_REMEDY: Final = (
    "Do on the GPU, on whole batches, what can be done there (normalising, flips, colour: "
    "torchvision v2, kornia); crop before resizing; keep samples uint8 until they are on the GPU; "
    "take cheaper interpolation, or do once and store what is not random."
)


@rule(
    "G108",
    "augment-bound",
    since="0.1",
    figures=lambda: [
        RuleFigure(
            "Blur and colour on every picture, two processors",
            "Augmenting takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(
                    _LOADER, {"augment": 90.0}, example_workers(2, {"augment": 5.0, "decode": 0.5})
                ),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.augment": 40.0},
                example_use(
                    _FREE_LOADER,
                    {"augment": 40.0},
                    example_workers(2, {"augment": 5.0, "decode": 0.5}),
                ),
            ),
        ),
        RuleFigure(
            "Nobody waits for it",
            None,
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                example_use(
                    _LOADER, {"hand-over": 0.2}, example_workers(2, {"augment": 5.0, "decode": 0.5})
                ),
            ),
        ),
    ],
)
def augment_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise transforms that take long, where more workers do not make up for it.

    ## Why it costs time
    Random crops, resizing, blur and colour changes run on the CPU for each sample and epoch. If all
    processors are busy with them and the training still waits, only cheaper transforms help.

    ## How it is measured
    The recorder times the calls of transforms (torchvision, albumentations and similar libraries)
    inside each fetch.

    A stage is a cause if a step without it would be shorter than one with as many workers as the
    processors can feed. Both are lower bounds: the longest of the work between batches plus a
    hand-over, the time of the workers, and that of all processors. Of the stage, the time to write
    the batch once remains.

    If the training computes on the same processors and makes its batches itself, workers gain less
    than that bound: there the stage is also a cause, unless workers would be a fifth faster at
    best.
    """
    return detect_slow_stage(augment_bound, evidence, loader, words=("augment", _MANUAL_REMEDY))
