"""Loggers that the training waits for."""

from typing import Final

from gapless.catalogue import examples, occasional, windowed
from gapless.catalogue.effects.occasions import LOGGING
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
    "G702",
    "logging-in-the-way",
    since="0.1",
    figures=[
        Figure(
            "A flush in each step",
            "Logging (2.0 times a step, 1.5 ms each) takes 3.0 ms of each 43.0 ms step.",
            stated(
                examples.gpu(logging=200),
                {"busy.tc_math": 40, LOGGING: 3},
                CallUse("logging", "train.py", 90, "main", 2 * COUNT, 3 * COUNT * MS, 2.0),
            ),
        ),
        Figure(
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
def logging_in_the_way(seen: Seen) -> Loss | None:
    """Recognise that the training stands still while a logger writes.

    ## Why it costs time
    A call of TensorBoard, wandb or mlflow is a millisecond of Python, at times a write or a
    request. The next launches wait for it.

    ## How it is measured
    By the recorder's marks around the loggers' functions, over the whole run: the time between two
    steps that went there, and nothing that the device's queue hid. That a value was read from the
    device to be logged is another cause.
    """
    found = occasional.calls(seen, "logging", LOGGING)
    step = seen.step_ns
    if found is None or not step or found.step_ns < _LEAST * step:
        return None
    each = "" if found.each_ns is None else f", {windowed.ms(found.each_ns)} each"
    return logging_in_the_way.loss(
        f"Logging ({found.how_often}{each}) takes {found.taking(seen)}.",
        Drop((LOGGING,)),
        where=found.where,
        evidence=(
            Measure("logging, a step", found.step_ns, "ns"),
            *((Measure("a call", found.each_ns, "ns"),) if found.each_ns else ()),
        ),
        helps=(f"log-every={found.every(step, _AIM)}",) if not seen.foreign else (),
        unsure=found.unsure,
        no_remedy=None if not seen.foreign else "Log every tenth step.",
    )
