"""Write checkpoints less often."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import CHECKPOINT, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 2


@fix(
    "checkpoint-every",
    since="0.1",
    effect=cadence_effect(CHECKPOINT),
    value="N",
    cases=lambda: [
        Case(
            "A checkpoint in each step",
            example_facts.gpu(checkpoint=312),
            "risky: one in 4 checkpoints is written",
            Option(value="4"),
            edits=(Wrap("torch.save", "cadence", {"what": "checkpoint", "every": 4}),),
        ),
        Case(
            "None was seen",
            example_facts.gpu(checkpoint=0),
            "nothing to change: no checkpoint was written",
        ),
        Case(
            "Each of them, as it is",
            example_facts.gpu(checkpoint=312),
            "nothing to change: that is what the script does already",
            Option(value="1"),
        ),
    ],
)
def checkpoint_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Write only every N-th checkpoint (by default every second).

    For each line that saves, one in N is written; the others become further names of that file.

    ## Precondition
    A checkpoint was written in the run.

    ## Safety
    Risky: a crash loses up to N times as much, and the last checkpoint of a run may be among those
    that are left out.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if facts.calls.get("checkpoint") == 0:
        return (checkpoint_every.no_change("no checkpoint was written"),)
    if period == 1:
        return (checkpoint_every.no_change("that is what the script does already"),)
    return (
        checkpoint_every.proposal(
            f"one in {period} checkpoints is written",
            Wrap("torch.save", "cadence", {"what": "checkpoint", "every": period}),
            applicability=Applicability.RISKY,
            risk=f"a crash loses up to {period} times as much",
        ),
    )
