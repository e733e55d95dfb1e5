"""G107."""

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
_STEP: Final = {"busy.math": 10.0, "idle.data.decode": 90.0}
_BY_HAND: Final = (
    "Store images at the size that training uses, or decoded (uint8 arrays on disk); let the "
    "decoder scale while it decodes (PIL's Image.draft, reduced decoding of OpenCV and TurboJPEG); "
    "or decode on the GPU (torchvision.io.decode_jpeg with device='cuda')."
)


@rule(
    "G107",
    "decode-bound",
    since="0.1",
    figures=[
        Figure(
            "Photographs at full size, two processors",
            "Decoding takes 91 % of making a batch (320.0 ms of 352.0 ms): without it a step "
            "could take 20.1 ms, with 2 workers 176.0 ms at best.",
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                _STEP,
                used(_WORKERS, {"decode": 90.0}, made_by(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
        Figure(
            "More workers would keep up",
            None,
            seen(
                gpu(_FREE),
                {"busy.math": 60.0, "idle.data.decode": 40.0},
                used(_FREE, {"decode": 40.0}, made_by(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
        Figure(
            "Nobody waits for it",
            None,
            seen(
                gpu(_WORKERS, machine(cpus=2)),
                {"busy.math": 99.8, "idle.data.hand-over": 0.2},
                used(_WORKERS, {"hand-over": 0.2}, made_by(2, {"decode": 5.0, "collate": 0.5})),
            ),
        ),
    ],
)
def decode_bound(seen: Seen, loader: Loader) -> Loss | None:
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
    return stage_bound(decode_bound, seen, loader, words=("decode", _BY_HAND))
