"""Decoding that makes batches late."""

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
    figures=lambda: [
        RuleFigure(
            "Photographs at full size, two processors",
            "Decoding takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            evidence_of(
                gpu(_LOADER, machine(cpus=2)),
                _STEP,
                example_use(
                    _LOADER, {"decode": 90.0}, example_workers(2, {"decode": 5.0, "collate": 0.5})
                ),
            ),
        ),
        RuleFigure(
            "More workers would keep up",
            None,
            evidence_of(
                gpu(_FREE_LOADER),
                {"busy.math": 60.0, "idle.data.decode": 40.0},
                example_use(
                    _FREE_LOADER,
                    {"decode": 40.0},
                    example_workers(2, {"decode": 5.0, "collate": 0.5}),
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
                    _LOADER, {"hand-over": 0.2}, example_workers(2, {"decode": 5.0, "collate": 0.5})
                ),
            ),
        ),
    ],
)
def decode_bound(evidence: Evidence, loader: Loader) -> Detection | None:
    """Recognise samples that take long to decode, where more workers do not make up for it.

    ## Why it costs time
    A full-size JPEG costs several milliseconds on a processor, for each sample and epoch. If all
    processors decode and the training still waits, only less decoding helps.

    ## How it is measured
    The recorder times the decoders that it knows (PIL, OpenCV, torchvision, simplejpeg, audio and
    video readers) inside each fetch.

    A stage is a cause if a step without it would be shorter than one with as many workers as the
    processors can feed. Both are lower bounds: the longest of the work between batches plus a
    hand-over, the time of the workers, and that of all processors. Of the stage, the time to write
    the batch once remains.

    If the training computes on the same processors and makes its batches itself, workers gain less
    than that bound: there the stage is also a cause, unless workers would be a fifth faster at
    best.
    """
    return detect_slow_stage(decode_bound, evidence, loader, words=("decode", _MANUAL_REMEDY))
