"""Python's garbage collector in the step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.model.change import Drop
from gapless.model.finding import Detection, Measure
from gapless.model.seen import Evidence

_MIN_STEP_SHARE: Final = 0.002  # of the step


@rule(
    "G208",
    "collecting-garbage",
    since="0.1",
    figures=[
        RuleFigure(
            "Many objects that live long",
            "Python's garbage collector ran 40 times in 312 steps; it holds up 3.0 ms of each "
            "23.0 ms step.",
            stated(examples.gpu(collections=40), {"busy.tc_math": 20, "idle.gc": 3}),
        ),
        RuleFigure(
            "A trace of another tool",
            "Python's garbage collector runs in the steps; it holds up 3.0 ms of each 23.0 ms "
            "step.",
            stated(None, {"busy.tc_math": 20, "idle.gc": 3}),
        ),
        RuleFigure(
            "Collections behind the device's work",
            None,
            stated(examples.gpu(collections=40), {"busy.tc_math": 20}),
        ),
        RuleFigure(
            "Drawn: it runs while the device has nothing to do",
            "Python's garbage collector runs in the steps; it holds up 4.0 ms of each 12.0 ms "
            "step.",
            drawing="""
                step  aaaaaaaaaaaabbbbbbbbbbbbcccccccccccc
                main  gggglp......gggglp......gggglp......
                gpu   ....kkkkkkkk....kkkkkkkk....kkkkkkkk
            """,
        ),
    ],
)
def collecting_garbage(evidence: Evidence) -> Detection | None:
    """Recognise that Python's collector of cyclic garbage stops the training thread.

    ## Why it costs time
    Now and then Python looks through all objects for cycles that nobody refers to. It holds all
    threads; a job with millions of objects (lists of file names, annotations) pays tens of
    milliseconds each time, a job on many ranks the longest of them all. ``gc.collect()`` in the
    loop does so by command.

    ## How it is measured
    Each collection is timed by the recorder. Counted is what the device, or the training, stood
    still for.
    """
    step_ns, lost_ns = evidence.step_ns, evidence.per_step("idle.gc")
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    facts = evidence.facts
    count = None if facts is None else facts.calls.get("collections")
    runs = "runs in the steps"
    if count and facts is not None:
        runs = f"ran {count} time{'s' if count > 1 else ''} in {facts.world.steps} steps"
    return collecting_garbage.detection(
        f"Python's garbage collector {runs}; it holds up {windowed.format_step_part(evidence, lost_ns)}.",
        Drop(("idle.gc",)),
        measures=(Measure("held up, a step", lost_ns, "ns"),)
        + ((Measure("collections", count, ""),) if count else ()),
        helps=("collector",),
        no_remedy="a gc.collect() in the loop can go; the fix only makes it cheap",
    )
