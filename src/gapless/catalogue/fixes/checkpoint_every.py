"""Write checkpoints less often."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 2


@fix(
    "checkpoint-every",
    since="0.1",
    value="N",
    cases=[
        Case(
            "A checkpoint in each step",
            examples.gpu(checkpoint=312),
            "risky: one in 4 checkpoints is written",
            Option(value="4"),
            edits=(Wrap("torch.save", "cadence", {"what": "checkpoint", "every": 4}),),
        ),
        Case(
            "None was seen",
            examples.gpu(checkpoint=0),
            "nothing to change: no checkpoint was written",
        ),
        Case(
            "Every one, as it is",
            examples.gpu(checkpoint=312),
            "nothing to change: every one is what the script does",
            Option(value="1"),
        ),
    ],
)
def checkpoint_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Write every N-th checkpoint only (every second, if not said).

    Of each line that saves one in N is written; the others become second names of it.

    ## Precondition
    A checkpoint was written in the run.

    ## Safety
    Risky: what a crash loses is up to N times as much, and the last checkpoint of a run may be
    one that is left out.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if facts.calls.get("checkpoint") == 0:
        return (checkpoint_every.no_change("no checkpoint was written"),)
    if period == 1:
        return (checkpoint_every.no_change("every one is what the script does"),)
    return (
        checkpoint_every.proposal(
            f"one in {period} checkpoints is written",
            Wrap("torch.save", "cadence", {"what": "checkpoint", "every": period}),
            applicability=Applicability.RISKY,
            risk=f"a crash loses up to {period} times as much",
        ),
    )
