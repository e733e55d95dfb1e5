"""The garbage collector, more seldom and at a step's edge."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_USUAL = 1000


@fix(
    "collector",
    since="0.1",
    value="STEPS",
    cases=[
        Case(
            "It ran within steps",
            examples.gpu(collections=40),
            "same: the garbage collector runs every 1000 steps, what lives at first is frozen "
            "(40 collections)",
            edits=(Wrap("gc", "collector", {"every": 1000, "freeze": True}),),
        ),
        Case(
            "It never ran",
            examples.gpu(collections=0),
            "nothing to change: the garbage collector did not run",
        ),
    ],
)
def collector(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the garbage collector run every N steps only (1000, if not said), between steps.

    What lives when the training begins is frozen: it is not looked at again. Ranks collect at the
    same step, so that none waits for another.

    ## Precondition
    The collector ran in the training.

    ## Safety
    The same values. Cycles of objects are freed later, so more memory is in use; tensors in cycles
    hold memory of the device until then.
    """
    every = option.number(_USUAL)
    found = facts.calls.get("collections")
    if found == 0:
        return (collector.nothing("the garbage collector did not run"),)
    many = "" if found is None else f" ({found} collection{'s' if found > 1 else ''})"
    does = f"the garbage collector runs every {every} steps, what lives at first is frozen{many}"
    return (
        collector.proposal(
            does,
            Wrap("gc", "collector", {"every": every, "freeze": True}),
            applicability=Applicability.SAME,
            risk="objects in cycles are freed later: more memory",
        ),
    )
