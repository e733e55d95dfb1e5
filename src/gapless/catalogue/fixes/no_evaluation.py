"""Evaluation is left out: what it costs."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "no-evaluation",
    since="0.1",
    cases=[
        Case(
            "A model that was told to evaluate twelve times",
            examples.gpu(evaluation=12),
            "trial: evaluation is left out",
            edits=(Wrap("torch.nn.Module.eval", "no-evaluation"),),
        ),
        Case(
            "None was seen",
            examples.gpu(evaluation=0),
            "nothing to change: the model was never told to evaluate",
        ),
    ],
)
def no_evaluation(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out evaluation: how fast training would be without it.

    An ablation. Between ``model.eval()`` and ``model.train()`` loaders give no batches.

    ## Precondition
    The model was told to evaluate in the run, or it is not known whether it was.

    ## Safety
    What evaluation decides (the best checkpoint, the end of training) is decided wrongly, so
    it is for trials only.
    """
    if facts.calls.get("evaluation") == 0:
        return (no_evaluation.nothing("the model was never told to evaluate"),)
    return (
        no_evaluation.proposal(
            "evaluation is left out",
            Wrap("torch.nn.Module.eval", "no-evaluation"),
            applicability=Applicability.TRIAL,
        ),
    )
