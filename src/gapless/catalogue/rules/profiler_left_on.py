"""The training's own profiler, left on."""

from typing import Final

from gapless.catalogue import examples, occasional, windowed
from gapless.catalogue.effects.occasions import PROFILING
from gapless.catalogue.occasional import Occasion
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import changed, stepped
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import COUNT, MS
from gapless.model.change import Drop, Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.footprint import CallUse
from gapless.model.interval import Interval
from gapless.model.recording import Unseen
from gapless.model.seen import Seen

_HOST: Final = ("idle.host", "idle.launch", "idle.sync.refill")
# Steps that the host bounds take 1.45 to 2.1 times as long under one (measured: lessons, 30).
_FACTOR: Final = Interval(0.5, 0.7, 1.0)
_LEAST: Final = 0.005  # of the step: a first look
_ON: Final = "A profiler of the training's own is on in all of its steps"
_ENDS: Final = "Starting and stopping the training's own profiler, with the traces it writes"
_BY_HAND: Final = (
    "give it a schedule (a few steps, once), or leave it out: gapless has its own windows"
)
_TOLD: Final = ("its own profiler", "another profiler")  # why there are no windows of ours


@rule(
    "G212",
    "profiler-left-on",
    since="0.1",
    figures=[
        Figure(
            "torch.profiler around the whole training",
            "A profiler of the training's own is on in all of its steps, of 25.0 ms.",
            stepped(
                changed(
                    stated(
                        examples.gpu(), {"busy.tc_math": 20, "idle.host.dispatch": 5}, in_windows={}
                    ),
                    unseen=(Unseen("windows", "the training has its own profiler"),),
                ),
                profiled_only=True,
            ),
        ),
        Figure(
            "A trace every ten steps",
            "Starting and stopping the training's own profiler, with the traces it writes (every "
            "10 steps, 300.0 ms each) takes 30.0 ms of each 50.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 20, PROFILING: 30},
                CallUse("profiling", "train.py", 90, "main", COUNT // 10, 30 * COUNT * MS, 0.1),
            ),
        ),
        Figure(
            "None, or only for some steps",
            None,
            stated(examples.gpu(), {"busy.tc_math": 20}),
        ),
    ],
)
def profiler_left_on(seen: Seen) -> Loss | None:
    """Recognise that the training's own profiler records all of its steps, or often stops.

    ## Why it costs time
    A profiler writes down each operator: one to two microseconds each, more with shapes and stacks.
    Steps that the host bounds take up to twice as long. Each time it stops, the training waits
    until what it saw is collected and written: seconds for some steps of a large model.

    ## How it is measured
    The recorder sees profilers start and stop, and marks how long that takes with what is written
    then. That no step was without one makes it a fault; how much steps take longer under it is an
    estimate.
    """
    recorded, step = seen.study.recorded, seen.step_ns
    if recorded is None or recorded.steps is None or not step:
        return None
    told = any(word in one.why for one in recorded.unseen for word in _TOLD)
    always = recorded.steps.profiled_only and (bool(recorded.adopted) or told)
    ends = None if recorded.footprint is None else occasional.calls(seen, "profiling", PROFILING)
    often = ends is not None and ends.step_ns >= _LEAST * step
    if not (always or often):
        return None
    return profiler_left_on.loss(
        f"{_ON if always else _ENDS}{_taking(seen, ends if often else None, always=always)}.",
        Drop((PROFILING,)),
        *((Hosted(_HOST, _FACTOR),) if always else ()),
        where=occasional.line(seen, "profiling"),
        evidence=(
            Measure("a step", step, "ns"),
            *((Measure("of that, its ends and traces", ends.step_ns, "ns"),) if ends else ()),
        ),
        unsure=None if always or ends is None else ends.unsure,
        no_remedy=_BY_HAND,
        inferred=always,
    )


def _taking(seen: Seen, ends: Occasion | None, *, always: bool) -> str:
    """Say what a step takes, or what of it the ends of the profiler take."""
    if ends is None:
        return f", of {windowed.ms(seen.step_ns or 0)}"
    each = "" if ends.each_ns is None else f", {windowed.ms(ends.each_ns)} each"
    words = "; its ends and traces take" if always else f" ({ends.how_often}{each}) takes"
    return f"{words} {ends.taking(seen)}"
