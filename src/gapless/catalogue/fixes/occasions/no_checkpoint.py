"""Write each kind of checkpoint once, to measure what saving costs."""

from gapless.catalogue.declare.fix import Case, Option, fix
from gapless.catalogue.effects.occasions import CHECKPOINT, cadence_effect
from gapless.catalogue.examples import example_facts
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts


@fix(
    "no-checkpoint",
    since="0.1",
    effect=cadence_effect(CHECKPOINT),
    cases=lambda: [
        Case(
            "Twelve calls of torch.save",
            example_facts.gpu(checkpoint=12),
            "trial: each kind of checkpoint is written once",
            edits=(Wrap("torch.save", "no-checkpoint"),),
        ),
        Case(
            "None was seen",
            example_facts.gpu(checkpoint=0),
            "nothing to change: no checkpoint was written",
        ),
    ],
)
def no_checkpoint(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Write each kind of checkpoint only once: how fast training would be without saving.

    An ablation. The first checkpoint of each line is really written; later ones become further
    names of that file, so that code which renames, lists or loads checkpoints finds some.

    ## Precondition
    A checkpoint was written in the run, or it is not known whether one was.

    ## Safety
    It saves less than it should, so it is for trials only: loading a checkpoint gives an old one.
    """
    if facts.calls.get("checkpoint") == 0:
        return (no_checkpoint.no_change("no checkpoint was written"),)
    return (
        no_checkpoint.proposal(
            "each kind of checkpoint is written once",
            Wrap("torch.save", "no-checkpoint"),
            applicability=Applicability.ABLATION,
        ),
    )
