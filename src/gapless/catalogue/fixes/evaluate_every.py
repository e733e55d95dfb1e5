"""Evaluate less often."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_USUAL = 2


@fix(
    "evaluate-every",
    since="0.1",
    value="N",
    cases=[
        Case(
            "An evaluation after each step",
            examples.gpu(evaluation=312),
            "risky: one in 4 evaluations is made",
            Option(value="4"),
            edits=(Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": 4}),),
        ),
        Case(
            "None was seen",
            examples.gpu(evaluation=0),
            "nothing to change: the model was never told to evaluate",
        ),
        Case(
            "Every one, as it is",
            examples.gpu(evaluation=312),
            "nothing to change: every one is what the script does",
            Option(value="1"),
        ),
    ],
)
def evaluate_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Evaluate every N-th time only (every second, if not said).

    In the others the loader of the evaluation gives no batches.

    ## Precondition
    The model was told to evaluate in the run.

    ## Safety
    Risky: the best checkpoint is chosen among fewer, early stopping stops later, and a script that
    divides by the number of batches fails where there are none.
    """
    every = option.number(_USUAL)
    if facts.calls.get("evaluation") == 0:
        return (evaluate_every.nothing("the model was never told to evaluate"),)
    if every == 1:
        return (evaluate_every.nothing("every one is what the script does"),)
    return (
        evaluate_every.proposal(
            f"one in {every} evaluations is made",
            Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": every}),
            applicability=Applicability.RISKY,
            risk="decisions that rest on evaluations rest on fewer",
        ),
    )
