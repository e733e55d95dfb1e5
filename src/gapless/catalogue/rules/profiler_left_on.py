"""The training's own profiler, left on."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import changed, stepped
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.change import Drop, Hosted
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.recording import Unseen
from gapless.model.seen import Seen

_HOST: Final = ("idle.host", "idle.launch", "idle.sync.refill")
# Steps that the host bounds take 1.45 to 2.1 times as long under one (measured: lessons, 30).
_FACTOR: Final = Interval(0.5, 0.7, 1.0)
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
            "None, or only for some steps",
            None,
            stated(examples.gpu(), {"busy.tc_math": 20}),
        ),
    ],
)
def profiler_left_on(seen: Seen) -> Loss | None:
    """Recognise that the training's own profiler records all of its steps.

    ## Why it costs time
    A profiler writes down each operator: one to two microseconds each, more with shapes and stacks.
    Steps that the host bounds take up to twice as long.

    ## How it is measured
    The recorder sees profilers start and stop. That no step was without one makes it a fault; how
    much it costs is an estimate.
    """
    recorded = seen.study.recorded
    steps = None if recorded is None else recorded.steps
    if recorded is None or steps is None or not steps.profiled_only or recorded.windows:
        return None
    told = any(word in one.why for one in recorded.unseen for word in _TOLD)
    theirs = bool(recorded.adopted) or told
    if not theirs:
        return None
    return profiler_left_on.loss(
        "A profiler of the training's own is on in all of its steps, of "
        f"{windowed.ms(steps.mean_ns)}.",
        Drop(("idle.profiler",)),
        Hosted(_HOST, _FACTOR),
        evidence=(Measure("a step", steps.mean_ns, "ns"),),
        no_remedy="give it a schedule (a few steps), or leave it out: gapless has its own windows",
        inferred=True,
    )
