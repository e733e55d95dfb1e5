"""Evaluate less often."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.fixes.no_evaluation import NO_EVALUATION_LOADER, has_evaluation
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 2


@fix(
    "evaluate-every",
    since="0.1",
    value="N",
    cases=[
        Case(
            "An evaluation after each step",
            examples.gpu(evaluation=312),
            "risky: one in 4 evaluations is whole",
            Option(value="4"),
            edits=(Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": 4}),),
        ),
        Case(
            "None was seen",
            examples.gpu(evaluation=0),
            "nothing to change: no evaluation was seen",
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

    The others end after their first batch.

    ## Precondition
    An evaluation was seen in the run, and a DataLoader that may give it its batches.

    ## Safety
    Risky: metrics of the others are of one batch, so what they decide (the best checkpoint, the end
    of training) is decided wrongly.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if not has_evaluation(facts):
        return (evaluate_every.no_change("no evaluation was seen"),)
    if not facts.loaders:
        return (evaluate_every.refusal(NO_EVALUATION_LOADER),)
    if period == 1:
        return (evaluate_every.no_change("every one is what the script does"),)
    return (
        evaluate_every.proposal(
            f"one in {period} evaluations is whole",
            Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": period}),
            applicability=Applicability.RISKY,
            risk="decisions that rest on evaluations rest on one batch at times",
        ),
    )
