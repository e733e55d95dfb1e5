"""Loggers that the training waits for."""

from typing import Final

from gapless.catalogue import examples, occasional, windowed
from gapless.catalogue.effects.occasions import LOGGING
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.catalogue.seen_parts import COUNT, MS
from gapless.model.change import Drop
from gapless.model.finding import Detection, Measure
from gapless.model.footprint import CallUse
from gapless.model.seen import Evidence

_MIN_STEP_SHARE: Final = 0.005  # of the step: a first look
_TARGET_SHARE: Final = 0.01


@rule(
    "G702",
    "logging-in-the-way",
    since="0.1",
    figures=[
        RuleFigure(
            "A flush in each step",
            "Logging (2.0 times a step, 1.5 ms each) takes 3.0 ms of each 43.0 ms step.",
            stated(
                examples.gpu(logging=200),
                {"busy.tc_math": 40, LOGGING: 3},
                CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0),
            ),
        ),
        RuleFigure(
            "The device's queue hides it",
            None,
            stated(
                examples.gpu(logging=200),
                {"busy.tc_math": 40},
                CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0),
            ),
        ),
    ],
)
def logging_in_the_way(evidence: Evidence) -> Detection | None:
    """Recognise that the training stands still while a logger writes.

    ## Why it costs time
    A call of TensorBoard, wandb or mlflow is a millisecond of Python, at times a write or a
    request. The next launches wait for it.

    ## How it is measured
    By the recorder's marks around the loggers' functions, over the whole run: the time between two
    steps that went there, and nothing that the device's queue hid. That a value was read from the
    device to be logged is another cause.
    """
    occasion = occasional.find_occasion(evidence, "logging", LOGGING)
    step_ns = evidence.step_ns
    if occasion is None or not step_ns or occasion.step_ns < _MIN_STEP_SHARE * step_ns:
        return None
    duration_words = "" if occasion.each_ns is None else f", {windowed.ms(occasion.each_ns)} each"
    return logging_in_the_way.detection(
        f"Logging ({occasion.frequency}{duration_words}) takes {occasion.format_cost(evidence)}.",
        Drop((LOGGING,)),
        location=occasion.location,
        measures=(
            Measure("logging, a step", occasion.step_ns, "ns"),
            *((Measure("a call", occasion.each_ns, "ns"),) if occasion.each_ns else ()),
        ),
        helps=(f"log-every={occasion.suggest_period(step_ns, _TARGET_SHARE)}",) if not evidence.is_trace_only else (),
        unsure=occasion.unsure_reason,
        no_remedy=None if not evidence.is_trace_only else "Log every tenth step.",
    )
