"""Evaluate less often."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import EVALUATION, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.catalogue.fixes.occasions.no_evaluation import NO_EVALUATION_LOADER, has_evaluation
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

_DEFAULT_PERIOD = 2


@fix(
    "evaluate-every",
    since="0.1",
    effect=cadence_effect(EVALUATION),
    value="N",
    cases=lambda: [
        Case(
            "An evaluation after each step",
            example_facts.gpu(evaluation=312),
            "risky: one in 4 evaluations is complete",
            Option(value="4"),
            edits=(Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": 4}),),
        ),
        Case(
            "None was seen",
            example_facts.gpu(evaluation=0),
            "nothing to change: no evaluation was seen",
        ),
        Case(
            "Each of them, as it is",
            example_facts.gpu(evaluation=312),
            "nothing to change: that is what the script does already",
            Option(value="1"),
        ),
    ],
)
def evaluate_every(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Evaluate only every N-th time (by default every second).

    The others end after their first batch.

    ## Precondition
    An evaluation was seen in the run, and a DataLoader that may give it its batches.

    ## Safety
    Risky: metrics of the others come from one batch, so decisions based on them (the best
    checkpoint, the end of training) are wrong.
    """
    period = option.parse_number(_DEFAULT_PERIOD)
    if not has_evaluation(facts):
        return (evaluate_every.no_change("no evaluation was seen"),)
    if not facts.loaders:
        return (evaluate_every.refusal(NO_EVALUATION_LOADER),)
    if period == 1:
        return (evaluate_every.no_change("that is what the script does already"),)
    return (
        evaluate_every.proposal(
            f"one in {period} evaluations is complete",
            Wrap("torch.nn.Module.eval", "cadence", {"what": "evaluation", "every": period}),
            applicability=Applicability.RISKY,
            risk="some decisions based on evaluations rest on a single batch",
        ),
    )
