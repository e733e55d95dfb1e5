"""End evaluations after their first batch, to measure what they cost."""

from typing import Final

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import EVALUATION, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

NO_EVALUATION_LOADER: Final = "no DataLoader gives an evaluation its batches, so none can end early"


@fix(
    "no-evaluation",
    since="0.1",
    effect=cadence_effect(EVALUATION),
    cases=lambda: [
        Case(
            "A model that was put into evaluation mode twelve times",
            example_facts.gpu(evaluation=12),
            "trial: evaluations end after their first batch",
            edits=(Wrap("torch.nn.Module.eval", "no-evaluation"),),
        ),
        Case(
            "None was seen",
            example_facts.gpu(evaluation=0),
            "nothing to change: no evaluation was seen",
        ),
        Case(
            "A model that acts in an environment, and no DataLoader",
            example_facts.without_loaders(example_facts.gpu(evaluation=12)),
            "refused: no DataLoader gives an evaluation its batches, so none can end early",
        ),
    ],
)
def no_evaluation(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """End each evaluation after its first batch: how fast training would be without them.

    An ablation. A loader evaluates if its batches train nothing, and gradients are off or a model
    is in evaluation mode.

    ## Precondition
    An evaluation was seen in the run: a model was in evaluation mode, or a loader did not train.
    Without a DataLoader there are no batches after which it could end.

    ## Safety
    Decisions based on evaluations (the best checkpoint, the end of training) are wrong, so it is
    for trials only.
    """
    if not has_evaluation(facts):
        return (no_evaluation.no_change("no evaluation was seen"),)
    if not facts.loaders:
        return (no_evaluation.refusal(NO_EVALUATION_LOADER),)
    return (
        no_evaluation.proposal(
            "evaluations end after their first batch",
            Wrap("torch.nn.Module.eval", "no-evaluation"),
            applicability=Applicability.ABLATION,
        ),
    )


def has_evaluation(facts: Facts) -> bool:
    """Return whether an evaluation was seen, or whether there was one is not known."""
    may_evaluate = facts.calls.get("evaluation") != 0
    return may_evaluate or any(loader.trains is False for loader in facts.loaders)
