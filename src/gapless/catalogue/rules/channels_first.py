"""Images whose channels lie apart in memory, where tensor cores want them together."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.computing import (
    in_half,
    per_step,
    roof_of,
    rounds_convolutions,
    share,
    work_of,
)
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.work_examples import h200, worked
from gapless.model.facts import Model
from gapless.model.finding import Loss, Measure
from gapless.model.seen import Seen
from gapless.replay import formats

_LEAST: Final = 0.02  # of the step
_IMAGES: Final = ((16, 64, 256, 256), (64, 64, 3, 3))
_NORM: Final = worked(
    "aten::native_batch_norm",
    ((16, 64, 256, 256), (64,)),
    30,
    "busy.norm_reduce",
    dtype="bf16",
    calls=10,
    channels_first=True,
)
_TURNED: Final = worked(
    "aten::cudnn_convolution",
    _IMAGES,
    10,
    "busy.layout",
    dtype="bf16",
    calls=10,
    kernel="nchwToNhwcKernel",
    channels_first=True,
)
_AMP: Final = examples.precision(autocast={"cuda": "torch.bfloat16"})


@rule(
    "G504",
    "channels-first",
    since="0.1",
    figures=[
        Figure(
            "Convolutions in bf16",
            "Images with channels first: 10.0 ms of each 55.0 ms step turn them round for tensor "
            "cores, and other kernels of such images take 30.0 ms.",
            stated(
                examples.gpu(_AMP),
                {"busy.layout": 10, "busy.norm_reduce": 30, "busy.tc_math": 15},
                _NORM,
                _TURNED,
                h200(),
            ),
        ),
        Figure(
            "Channels last",
            None,
            stated(
                examples.gpu(_AMP, examples.model(channels_last=True)),
                {"busy.norm_reduce": 5, "busy.tc_math": 15},
                worked(
                    "aten::native_batch_norm",
                    ((16, 64, 256, 256), (64,)),
                    5,
                    "busy.norm_reduce",
                    dtype="bf16",
                    channels_first=False,
                ),
                h200(),
            ),
        ),
        Figure(
            "No images",
            None,
            stated(
                examples.gpu(examples.model(convolutions=0, channels_last=None)),
                {"busy.tc_math": 20},
                worked("aten::mm", ((4096, 768), (768, 768)), 20, "busy.tc_math"),
            ),
        ),
    ],
)
def channels_first(seen: Seen, model: Model) -> Loss | None:
    """Recognise convolutions whose images are laid out channel by channel.

    ## Why it costs time
    Tensor cores work on all channels of a pixel at once. Where these lie apart, cuDNN turns images
    round before each convolution and back after it, or falls back to slower kernels; norms and
    pooling of such images are slower, too.

    ## How it is measured
    By the strides of the operators' inputs, by kernels that turn images round, and by how far norms
    and pooling are from the memory's bandwidth.
    """
    facts = seen.facts
    if facts is None or not seen.on_device or not model.convolutions or model.channels_last:
        return None
    rows = work_of(seen)
    turned = sum(one.ns for one in rows if one.leaf == "busy.layout")
    spent = sum(one.ns for one in rows if one.channels_first and one.leaf != "busy.layout")
    if share(seen, turned + spent) < _LEAST:
        return None
    return channels_first.loss(
        f"Images with channels first: {windowed.of_step(seen, per_step(seen, turned))} "
        "turn them round for tensor cores, and other "
        f"kernels of such images take {windowed.ms(per_step(seen, spent))}.",
        *formats.channels_last(
            rows, roof_of(seen), half=in_half(facts), tf32=rounds_convolutions(facts)
        ),
        where=model.where,
        evidence=(
            Measure("turning images round, a step", per_step(seen, turned), "ns"),
            Measure("other kernels of images, a step", per_step(seen, spent), "ns"),
        ),
        helps=("channels-last",),
    )
