"""Loggers that the training waits for."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.effects.occasions import LOGGING
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import figure
from gapless.catalogue.examples.parts import COUNT, MS
from gapless.catalogue.fixes.occasions.cadence import log_every
from gapless.catalogue.queries import periodic, windows
from gapless.model.change import Drop
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure
from gapless.model.footprint import CallUse

_MIN_STEP_SHARE: Final = 0.005  # of the step
_TARGET_SHARE: Final = 0.01


@rule(
    "G702",
    "logging-in-the-way",
    figures=lambda: [
        figure(
            "A flush in each step",
            "Logging (2.0 times a step, 1.5 ms each) takes 3.0 ms of each 43.0 ms step.",
            example_facts.gpu(logging=200),
            {"busy.tc_math": 40, LOGGING: 3},
            CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0),
        ),
        figure(
            "The device's queue hides it",
            None,
            example_facts.gpu(logging=200),
            {"busy.tc_math": 40},
            CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0),
        ),
    ],
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
    occasion = periodic.find_occasion(evidence, "logging", LOGGING)
    step_ns = evidence.step_ns
    if occasion is None or not step_ns or occasion.step_ns < _MIN_STEP_SHARE * step_ns:
        return None
    duration_words = "" if occasion.each_ns is None else f", {windows.ms(occasion.each_ns)} each"
    return logging_in_the_way.detection(
        f"Logging ({occasion.frequency}{duration_words}) takes {occasion.format_cost(evidence)}.",
        Drop((LOGGING,)),
        location=occasion.location,
        measures=(
            Measure("logging, a step", occasion.step_ns, "ns"),
            *((Measure("a call", occasion.each_ns, "ns"),) if occasion.each_ns else ()),
        ),
        helps=(log_every.request(occasion.suggest_period(step_ns, _TARGET_SHARE)),)
        if not evidence.is_trace_only
        else (),
        unsure=occasion.unsure_reason,
        no_remedy=None if not evidence.is_trace_only else "Log every tenth step.",
    )
