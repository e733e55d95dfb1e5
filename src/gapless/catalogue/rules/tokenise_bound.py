"""G109."""

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
_STEP: Final = {"busy.math": 10.0, "idle.data.tokenise": 90.0}
_MANUAL_REMEDY: Final = (
    "Tokenise once, before training, and store the tokens (datasets.map, or an array on disk that "
    "is read by memmap); or take a fast tokenizer (use_fast=True) on whole batches."
)


@rule(
    "G109",
    "tokenise-bound",
    since="0.1",
    figures=[
        RuleFigure(
            "Text that is tokenised anew in each epoch, two processors",
            "Tokenising takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(_LOADER, {"tokenise": 90.0}, example_workers(2, {"tokenise": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.tokenise": 40.0},
                example_use(_FREE_LOADER, {"tokenise": 40.0}, example_workers(2, {"tokenise": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "Nobody waits for it",
            None,
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                example_use(_LOADER, {"hand-over": 0.2}, example_workers(2, {"tokenise": 5.0, "collate": 0.5})),
            ),
        ),
    ],
)
def tokenise_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise tokenising that takes long, where workers side by side do not make up for it.

    ## Why it costs time
    The same text gives the same tokens in each epoch, and a tokenizer in Python costs
    milliseconds a sample. When all processors are at it and the training still waits, it should be
    done once, beforehand.

    ## How it is measured
    The recorder times the calls of tokenizers (transformers, tokenizers, sentencepiece) inside each
    fetch.

    A stage is a cause where a step without it would be shorter than with as many workers as the
    processors feed. Both are bounds: the work between batches with a hand-over, the workers, and
    all processors together. What it takes to write the batch once is left of the stage.

    Beside a training that computes on the same processors, and makes its batches itself, workers
    do not give what they may: there it is one, too, unless they would be a fifth faster at best.
    """
    return detect_slow_stage(tokenise_bound, evidence, loader, words=("tokenise", _MANUAL_REMEDY))
