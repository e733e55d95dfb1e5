"""Python's garbage collector in the step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.collector import collector
from gapless.catalogue.queries import windows
from gapless.model.change import Drop
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.002  # of the step


@rule(
    "G208",
    "collecting-garbage",
    figures="""
    # Many long-lived objects
    > Python's garbage collector ran 40 times in 312 steps; it holds up 3.0 ms of each 23.0 ms step.
    gpu(collections=40)
    busy.tc_math 20, idle.gc 3
    # A trace of another tool
    > Python's garbage collector runs in the steps; it holds up 3.0 ms of each 23.0 ms step.
    busy.tc_math 20, idle.gc 3
    # Collections hidden behind the device's work
    gpu(collections=40)
    busy.tc_math 20
    # Drawn: it runs while the device has nothing to do
    > Python's garbage collector runs in the steps; it holds up 4.0 ms of each 12.0 ms step.
    . step  aaaaaaaaaaaabbbbbbbbbbbbcccccccccccc
    . main  gggglp......gggglp......gggglp......
    . gpu   ....kkkkkkkk....kkkkkkkk....kkkkkkkk
    """,
)
def collecting_garbage(evidence: Evidence) -> Detection | None:
    """Recognise that Python's collector of cyclic garbage stops the training thread.

    ## Why it costs time
    From time to time Python searches all objects for unreachable cycles. That stops all threads; a
    job with millions of objects (lists of file names, annotations) pays tens of milliseconds each
    time, a job on many ranks the longest of them all. ``gc.collect()`` in the loop does the same on
    request.

    ## How it is measured
    The recorder times each collection. What counts is the time for which the device, or the
    training, was blocked.
    """
    step_ns, lost_ns = evidence.step_ns, evidence.per_step("idle.gc")
    if not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns:
        return None
    facts = evidence.facts
    count = facts.calls.get("collections")
    runs = "runs in the steps"
    if count:
        runs = f"ran {count} time{'s' if count > 1 else ''} in {facts.world.steps} steps"
    return collecting_garbage.detection(
        f"Python's garbage collector {runs}; it holds up "
        f"{windows.format_step_part(evidence, lost_ns)}.",
        Drop(("idle.gc",)),
        measures=(Measure("held up, a step", lost_ns, "ns"),)
        + ((Measure("collections", count, ""),) if count else ()),
        helps=(collector.request(),),
        no_remedy="a gc.collect() in the loop can be removed; the fix only makes it cheap",
    )
