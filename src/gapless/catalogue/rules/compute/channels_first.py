"""Images whose channels are apart in memory, where tensor cores need them together."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.compute.channels_last import channels_last
from gapless.catalogue.queries import windows
from gapless.catalogue.queries.compute import (
    ns_per_window_step,
    roof_of,
    uses_half_precision,
    window_share,
    work_of,
)
from gapless.model.evidence import Evidence
from gapless.model.facts import Model
from gapless.model.finding import Detection, Measure
from gapless.roofline import formats

_MIN_STEP_SHARE: Final = 0.02  # of the step


@rule(
    "G504",
    "channels-first",
    figures="""
    image_sizes = ((16, 64, 256, 256), (64, 64, 3, 3))
    norm_work = example_work("aten::native_batch_norm", ((16, 64, 256, 256), (64,)), 30,
      "busy.norm_reduce", dtype="bf16", calls=10, channels_first=True)
    layout_work = example_work("aten::cudnn_convolution", image_sizes, 10, "busy.layout",
      dtype="bf16", calls=10, kernel="nchwToNhwcKernel", channels_first=True)
    amp = precision(autocast={"cuda": "torch.bfloat16"})
    # Convolutions in bf16
    > Images with channels first: 10.0 ms of each 55.0 ms step transpose them for tensor cores, and
      other kernels of such images take 30.0 ms.
    gpu(amp)
    busy.layout 10, busy.norm_reduce 30, busy.tc_math 15
    norm_work, layout_work, h200()
    # Convolutions in fp32: cuDNN has good kernels for either layout
    gpu()
    busy.layout 10, busy.norm_reduce 30, busy.tc_math 15
    norm_work, layout_work, h200()
    # Channels last
    gpu(amp, model(channels_last=True))
    busy.norm_reduce 5, busy.tc_math 15
    example_work("aten::native_batch_norm", ((16, 64, 256, 256), (64,)), 5, "busy.norm_reduce",
      dtype="bf16", channels_first=False)
    h200()
    # Texts as images of one channel
    gpu(amp)
    busy.layout 10, busy.tc_math 15
    example_work("aten::cudnn_convolution", ((1024, 1, 32, 300), (256, 1, 4, 300)), 10,
      "busy.layout", dtype="bf16", calls=10, kernel="nchwToNhwcKernel", channels_first=True)
    h200()
    # No images
    gpu(model(convolutions=0, channels_last=None))
    busy.tc_math 20
    example_work("aten::mm", ((4096, 768), (768, 768)), 20, "busy.tc_math")
    """,
)
def channels_first(evidence: Evidence, model: Model) -> Detection | None:
    """Recognise convolutions in half precision whose images are laid out channel by channel.

    ## Why it costs time
    Tensor cores work on all channels of a pixel at once. If these are apart in memory, cuDNN
    transposes images before each convolution and back after it, or falls back to slower kernels;
    norms and pooling of such images are slower, too.

    ## How it is measured
    By the strides of the operators' inputs, by kernels that transpose images, and by how far norms
    and pooling are from the memory bandwidth. Of images of one channel both layouts are the same.
    Convolutions in fp32 have good kernels for either: in trials of two such networks channels last
    were 0.96 and 1.02 times as fast, though a tenth of their steps transposed images.
    """
    facts = evidence.facts
    if not evidence.on_device or not model.convolutions or model.channels_last:
        return None
    if not uses_half_precision(facts):
        return None
    rows = work_of(evidence)
    laid_out = [row for row in rows if not formats.convolves_single_channel(row)]
    layout_ns = sum(row.ns for row in laid_out if row.leaf == "busy.layout")
    images_ns = sum(row.ns for row in laid_out if row.channels_first and row.leaf != "busy.layout")
    if window_share(evidence, layout_ns + images_ns) < _MIN_STEP_SHARE:
        return None
    return channels_first.detection(
        "Images with channels first: "
        f"{windows.format_step_part(evidence, ns_per_window_step(evidence, layout_ns))} transpose "
        "them for tensor cores, and other kernels of such images take "
        f"{windows.ms(ns_per_window_step(evidence, images_ns))}.",
        *formats.channels_last_changes(rows, roof_of(evidence), half=True, tf32=False),
        location=model.location,
        measures=(
            Measure("transposing images, a step", ns_per_window_step(evidence, layout_ns), "ns"),
            Measure(
                "other kernels of images, a step", ns_per_window_step(evidence, images_ns), "ns"
            ),
        ),
        helps=(channels_last.request(),),
    )
