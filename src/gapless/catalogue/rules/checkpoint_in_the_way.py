"""Checkpoints that the training waits for."""

from typing import Final

from gapless.catalogue import examples, occasional, windowed
from gapless.catalogue.effects.occasions import CHECKPOINT
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import COUNT, MS
from gapless.model.change import Drop
from gapless.model.finding import Loss, Measure
from gapless.model.footprint import CallUse
from gapless.model.seen import Seen

_LEAST: Final = 0.005  # of the step: a first look
_AIM: Final = 0.01


@rule(
    "G701",
    "checkpoint-in-the-way",
    since="0.1",
    figures=[
        Figure(
            "Every twenty steps",
            "Checkpoints (every 20 steps, 100.0 ms each) take 5.0 ms of each 45.0 ms step.",
            stated(
                examples.gpu(checkpoint=5),
                {"busy.tc_math": 40, CHECKPOINT: 5},
                CallUse("checkpoint", "train.py", 88, "main", COUNT // 20, 500 * MS, 0.05),
            ),
        ),
        Figure("None", None, stated(examples.gpu(checkpoint=0), {"busy.tc_math": 40})),
    ],
)
def checkpoint_in_the_way(seen: Seen) -> Loss | None:
    """Recognise that the training stands still while checkpoints are written.

    ## Why it costs time
    ``torch.save`` copies each tensor from the device, one by one, and writes them to a file before
    it returns. The device has nothing to do meanwhile.

    ## How it is measured
    By the recorder's marks around what saves, over the whole run: the time between two steps that
    went there, and nothing that the device's queue hid.
    """
    found = occasional.calls(seen, "checkpoint", CHECKPOINT)
    step = seen.step_ns
    if found is None or not step or found.step_ns < _LEAST * step:
        return None
    each = "" if found.each_ns is None else f", {windowed.ms(found.each_ns)} each"
    return checkpoint_in_the_way.loss(
        f"Checkpoints ({found.how_often}{each}) take {found.taking(seen)}.",
        Drop((CHECKPOINT,)),
        where=found.where,
        evidence=(
            Measure("saving, a step", found.step_ns, "ns"),
            *((Measure("a checkpoint", found.each_ns, "ns"),) if found.each_ns else ()),
        ),
        helps=(f"checkpoint-every={found.every(step, _AIM)}",) if not seen.foreign else (),
        unsure=found.unsure,
        no_remedy="torch.distributed.checkpoint.async_save copies into pinned memory and writes in "
        "the background, which needs memory and a processor to spare.",
    )
