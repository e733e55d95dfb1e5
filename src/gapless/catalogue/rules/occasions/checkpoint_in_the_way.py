"""Checkpoints that the training waits for."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.occasions import CHECKPOINT
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import figure
from gapless.catalogue.examples.parts import COUNT, MS
from gapless.catalogue.fixes.occasions.cadence import checkpoint_every
from gapless.catalogue.queries import periodic, windows
from gapless.model.change import Drop
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.footprint import CallUse

_MIN_STEP_SHARE: Final = 0.005  # of the step
_TARGET_SHARE: Final = 0.01


@rule(
    "G701",
    "checkpoint-in-the-way",
    figures=lambda: [
        figure(
            "Every twenty steps",
            "Checkpoints (every 20 steps, 100.0 ms each) take 5.0 ms of each 45.0 ms step.",
            example_facts.gpu(checkpoint=5),
            {"busy.tc_math": 40, CHECKPOINT: 5},
            CallUse("checkpoint", "train.py", 88, "main", COUNT // 20, 500 * MS, 0.05),
        ),
        figure("None", None, example_facts.gpu(checkpoint=0), {"busy.tc_math": 40}),
    ],
)
def checkpoint_in_the_way(evidence: Evidence) -> Detection | None:
    """Recognise that the training is blocked while checkpoints are written.

    ## Why it costs time
    ``torch.save`` copies each tensor from the device, one by one, and writes them to a file before
    it returns. The device is idle meanwhile.

    ## How it is measured
    By the recorder's marks around saving, over the whole run: the time between two steps that was
    spent there, without what the device's queue hid.
    """
    occasion = periodic.find_occasion(evidence, "checkpoint", CHECKPOINT)
    step_ns = evidence.step_ns
    if occasion is None or not step_ns or occasion.step_ns < _MIN_STEP_SHARE * step_ns:
        return None
    duration_words = "" if occasion.each_ns is None else f", {windows.ms(occasion.each_ns)} each"
    return checkpoint_in_the_way.detection(
        f"Checkpoints ({occasion.frequency}{duration_words}) take "
        f"{occasion.format_cost(evidence)}.",
        Drop((CHECKPOINT,)),
        location=occasion.location,
        measures=(
            Measure("saving, a step", occasion.step_ns, "ns"),
            *((Measure("a checkpoint", occasion.each_ns, "ns"),) if occasion.each_ns else ()),
        ),
        helps=(checkpoint_every.request(occasion.suggest_period(step_ns, _TARGET_SHARE)),)
        if not evidence.is_trace_only
        else (),
        unsure=occasion.unsure_reason,
        no_remedy="torch.distributed.checkpoint.async_save copies into pinned memory and writes in "
        "the background, which needs memory and a processor to spare.",
    )
