"""Checkpoints are not written: what saving costs."""

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "no-checkpoint",
    since="0.1",
    cases=[
        Case(
            "Twelve calls of torch.save",
            examples.gpu(checkpoint=12),
            "trial: checkpoints are not written",
            edits=(Wrap("torch.save", "no-checkpoint"),),
        ),
        Case(
            "None was seen",
            examples.gpu(checkpoint=0),
            "nothing to change: no checkpoint was written",
        ),
    ],
)
def no_checkpoint(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Leave out the writing of checkpoints: how fast training would be without it.

    An ablation. ``torch.save`` and its like do nothing.

    ## Precondition
    A checkpoint was written in the run, or it is not known whether one was.

    ## Safety
    Nothing is saved, so it is for trials only. A script that loads what it saved fails.
    """
    if facts.calls.get("checkpoint") == 0:
        return (no_checkpoint.nothing("no checkpoint was written"),)
    return (
        no_checkpoint.proposal(
            "checkpoints are not written",
            Wrap("torch.save", "no-checkpoint"),
            applicability=Applicability.TRIAL,
        ),
    )
