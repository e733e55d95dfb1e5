"""A compiler at work in the steps."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import windows
from gapless.model.change import Drop
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.02  # of the step


@rule(
    "G222",
    "recompiling-in-step",
    figures="""
    # Batches whose sizes change
    > Compiling holds up 40.0 ms of each 60.0 ms step, long after the first one.
    cpu()
    busy.math 20, idle.compile 40
    # All was compiled before
    cpu()
    busy.math 20, idle.compile 0.1
    # On a GPU, at a line that was sampled
    > Compiling holds up 30.0 ms of each 50.0 ms step, long after the first one.
    gpu()
    busy.tc_math 20, idle.compile 30
    HotLine("training", "train.py", 12, "train", 90, 0.6)
    """,
)
def recompiling_in_step(evidence: Evidence) -> Detection | None:
    """Recognise that ``torch.compile``, Triton or a library still compiles after the first steps.

    ## Why it costs time
    What Dynamo compiled is guarded by what it was compiled for: shapes, numbers, modules, whether
    gradients are wanted. A step that differs (a shorter batch, a loop counter or a learning rate
    that is a Python number, a function made anew) is traced and compiled again, which takes seconds
    for what runs in milliseconds; after eight times Dynamo gives a function up.

    ## How it is measured
    By the frames of compilers in the windows, which lie after the warm-up. What is held up is what
    the device, or the training, waited for them.

    ## What helps
    ``TORCH_LOGS=recompiles`` prints which guard failed. Shapes that change: ``dynamic=True``,
    ``torch._dynamo.mark_dynamic``, or padding to a few lengths. Numbers that change: tensors.
    """
    lost_ns = evidence.per_step("idle.compile")
    if not evidence.step_ns or lost_ns < _MIN_STEP_SHARE * evidence.step_ns:
        return None
    line = max(
        (line for line in evidence.hot_lines if line.thread == "training"),
        key=lambda line: line.share,
        default=None,
    )
    return recompiling_in_step.detection(
        f"Compiling holds up {windows.format_step_part(evidence, lost_ns)}, long after the first "
        "one.",
        Drop(("idle.compile",)),
        location=line and Location(line.file, line.line, line.function),
        measures=(Measure("held up, a step", lost_ns, "ns"),),
        no_remedy="TORCH_LOGS=recompiles prints which guard failed; mark what changes as dynamic, "
        "or pad it to a few sizes",
    )
