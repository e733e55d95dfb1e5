"""Evaluations end after their first batch: what they cost."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts

NO_EVALUATION_LOADER: Final = "no DataLoader gives an evaluation its batches: there is none to end early"


@fix(
    "no-evaluation",
    since="0.1",
    cases=[
        Case(
            "A model that was told to evaluate twelve times",
            examples.gpu(evaluation=12),
            "trial: evaluations end after their first batch",
            edits=(Wrap("torch.nn.Module.eval", "no-evaluation"),),
        ),
        Case(
            "None was seen",
            examples.gpu(evaluation=0),
            "nothing to change: no evaluation was seen",
        ),
        Case(
            "A model that acts in an environment, and no DataLoader",
            examples.without_loaders(examples.gpu(evaluation=12)),
            "refused: no DataLoader gives an evaluation its batches: there is none to end early",
        ),
    ],
)
def no_evaluation(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """End each evaluation after its first batch: how fast training would be without them.

    An ablation. A loader evaluates where its batches train nothing, and gradients are off or a
    model is in evaluation mode.

    ## Precondition
    An evaluation was seen in the run: a model was told to evaluate, or a loader did not train.
    Without any DataLoader there are no batches that it could be cut to.

    ## Safety
    What evaluation decides (the best checkpoint, the end of training) is decided wrongly, so
    it is for trials only.
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
    """Return whether an evaluation was seen, or it is not known whether there was one."""
    may_evaluate = facts.calls.get("evaluation") != 0
    return may_evaluate or any(loader.trains is False for loader in facts.loaders)
