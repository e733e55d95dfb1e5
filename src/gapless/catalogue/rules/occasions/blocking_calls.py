"""Checkpoints and loggers that the training waits for."""

from typing import Final

from gapless.catalogue.declare.fix import Fix
from gapless.catalogue.declare.rule import Rule, rule
from gapless.catalogue.effects.occasions import CHECKPOINT, LOGGING
from gapless.catalogue.fixes.occasions.cadence import checkpoint_every, log_every
from gapless.catalogue.queries import periodic, windows
from gapless.model.change import Drop
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.005  # of the step
_TARGET_SHARE: Final = 0.01


@rule(
    "G701",
    "checkpoint-in-the-way",
    figures="""
    # Every twenty steps
    > Checkpoints (every 20 steps, 100.0 ms each) take 5.0 ms of each 45.0 ms step.
    gpu(checkpoint=5)
    busy.tc_math 40, idle.io_main.checkpoint 5
    CallUse("checkpoint", "train.py", 88, "main", COUNT // 20, 500 * MS, 0.05)
    # None
    gpu(checkpoint=0)
    busy.tc_math 40
    """,
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
    return _detect_blocking(
        evidence,
        checkpoint_in_the_way,
        CHECKPOINT,
        ("Checkpoints", "take", "saving", "a checkpoint"),
        checkpoint_every,
        "torch.distributed.checkpoint.async_save copies into pinned memory and writes in the "
        "background, which needs memory and a processor to spare.",
    )


@rule(
    "G702",
    "logging-in-the-way",
    figures="""
    # A flush in each step
    > Logging (2.0 times a step, 1.5 ms each) takes 3.0 ms of each 43.0 ms step.
    gpu(logging=200)
    busy.tc_math 40, idle.io_main.logging 3
    CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0)
    # The device's queue hides it
    gpu(logging=200)
    busy.tc_math 40
    CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0)
    """,
)
def logging_in_the_way(evidence: Evidence) -> Detection | None:
    """Recognise that the training is blocked while a logger writes.

    ## Why it costs time
    A call of TensorBoard, wandb or mlflow is a millisecond of Python, sometimes with a write or a
    request. The next launches wait for it.

    ## How it is measured
    By the recorder's marks around the loggers' functions, over the whole run: the time between two
    steps that was spent there, without what the device's queue hid. Reading a value from the device
    to log it is another cause.
    """
    return _detect_blocking(
        evidence,
        logging_in_the_way,
        LOGGING,
        ("Logging", "takes", "logging", "a call"),
        log_every,
        "Log every tenth step." if evidence.is_trace_only else None,
    )


def _detect_blocking(  # noqa: PLR0913, PLR0917 - what differs between the two
    evidence: Evidence,
    rule: Rule,
    leaf: str,
    words: tuple[str, str, str, str],
    less_often: Fix,
    no_remedy: str | None,
) -> Detection | None:
    """Return the detection that such calls block steps; ``words``: subject, verb, its noun, one."""
    occasion = periodic.find_occasion(evidence, leaf.rpartition(".")[2], leaf)
    step_ns = evidence.step_ns
    if occasion is None or not step_ns or occasion.step_ns < _MIN_STEP_SHARE * step_ns:
        return None
    subject, verb, noun, single = words
    duration_words = "" if occasion.each_ns is None else f", {windows.ms(occasion.each_ns)} each"
    period = occasion.suggest_period(step_ns, _TARGET_SHARE)
    return rule.detection(
        f"{subject} ({occasion.frequency}{duration_words}) {verb} "
        f"{occasion.format_cost(evidence)}.",
        Drop((leaf,)),
        location=occasion.location,
        measures=(
            Measure(f"{noun}, a step", occasion.step_ns, "ns"),
            *((Measure(single, occasion.each_ns, "ns"),) if occasion.each_ns else ()),
        ),
        helps=() if evidence.is_trace_only else (less_often.request(period),),
        unsure=occasion.unsure_reason,
        no_remedy=no_remedy,
    )
