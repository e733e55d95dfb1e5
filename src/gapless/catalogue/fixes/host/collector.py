"""Run the garbage collector less often, and between steps."""

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.effects.occasions import find_proposed_period
from gapless.model.change import Drop
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 1000


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return the share of collections that remains, for replay."""
    facts, period = evidence.facts, find_proposed_period(proposal)
    n_collections = facts.calls.get("collections")
    if not n_collections or not facts.world.steps or period is None:
        return None
    return (Drop(("idle.gc",), keep=min(1.0, facts.world.steps / n_collections / period)),)


@fix(
    "collector",
    effect=_predict_changes,
    value="STEPS",
    cases="""
    # It ran within steps
    > same: the garbage collector runs every 1000 steps, initial objects are frozen (40 collections)
    gpu(collections=40), Wrap("gc", "collector", {"every": 1000, "freeze": True})
    # It never ran
    > nothing to change: the garbage collector did not run
    gpu(collections=0)
    """,
)
def collector(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the garbage collector run only every N steps (default 1000), between steps.

    Objects that exist when the training begins are frozen: they are not looked at again. Ranks
    collect at the same step, so that none waits for another.

    ## Precondition
    The collector ran in the training.

    ## Safety
    The same values. Cycles of objects are freed later, so more memory is in use; tensors in cycles
    hold memory of the device until then.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    n_collections = facts.calls.get("collections")
    if n_collections == 0:
        return (collector.no_change("the garbage collector did not run"),)
    count_words = (
        ""
        if n_collections is None
        else f" ({n_collections} collection{'s' if n_collections > 1 else ''})"
    )
    summary = (
        f"the garbage collector runs every {period} steps, initial objects are frozen{count_words}"
    )
    return (
        collector.proposal(
            summary,
            Wrap("gc", "collector", {"every": period, "freeze": True}),
            applicability=Applicability.IDENTICAL,
            risk="objects in cycles are freed later: more memory",
        ),
    )
