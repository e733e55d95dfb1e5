"""G107."""

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
_STEP: Final = {"busy.math": 10.0, "idle.data.decode": 90.0}
_MANUAL_REMEDY: Final = (
    "Store images at the size that training uses, or decoded (uint8 arrays on disk); let the "
    "decoder scale while it decodes (PIL's Image.draft, reduced decoding of OpenCV and TurboJPEG); "
    "or decode on the GPU (torchvision.io.decode_jpeg with device='cuda')."
)


@rule(
    "G107",
    "decode-bound",
    since="0.1",
    figures=[
        RuleFigure(
            "Photographs at full size, two processors",
            "Decoding takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(_LOADER, {"decode": 90.0}, example_workers(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.decode": 40.0},
                example_use(_FREE_LOADER, {"decode": 40.0}, example_workers(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
        RuleFigure(
            "Nobody waits for it",
            None,
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                example_use(_LOADER, {"hand-over": 0.2}, example_workers(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
    ],
)
def decode_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples that take long to decode, where workers side by side do not make up for it.

    ## Why it costs time
    A JPEG of full size costs several milliseconds on a processor, for each sample and epoch. When
    all processors decode and the training still waits, only less decoding helps.

    ## How it is measured
    The recorder times the decoders that it knows (PIL, OpenCV, torchvision, simplejpeg, audio and
    video readers) inside each fetch.

    A stage is a cause where a step without it would be shorter than with as many workers as the
    processors feed. Both are bounds: the work between batches with a hand-over, the workers, and
    all processors together. What it takes to write the batch once is left of the stage.

    Beside a training that computes on the same processors, and makes its batches itself, workers
    do not give what they may: there it is one, too, unless they would be a fifth faster at best.
    """
    return detect_slow_stage(decode_bound, evidence, loader, words=("decode", _MANUAL_REMEDY))
