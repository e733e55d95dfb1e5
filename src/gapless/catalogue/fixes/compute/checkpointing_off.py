"""Keep activations instead of computing them again."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.catalogue.effects.kernels import kernel_effect
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts
from gapless.roofline.recomputed import keep_activations

_TARGET: Final = "torch.utils.checkpoint.checkpoint"


@fix(
    "checkpointing-off",
    effect=kernel_effect(lambda evidence, _proposal: keep_activations(evidence.study.work) or None),
    cases="""
    # Activations are computed again
    > same: activations are kept, and not computed again in the backward pass
    gpu(model(checkpoints=True)), Wrap(_TARGET, "checkpointing-off")
    # They are kept
    > nothing to change: activation checkpointing was not used
    gpu()
    # No model
    > refused: no model was seen
    bare_facts()
    """,
)
def checkpointing_off(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Keep activations instead of computing them again in the backward pass.

    ## Precondition
    A model that uses ``torch.utils.checkpoint``, and memory for its activations. Whether they fit
    is what the trial shows.

    ## Safety
    The same values. It needs more memory: "does not fit" is a verdict.
    """
    if not facts.models:
        return (checkpointing_off.refusal("no model was seen"),)
    if all(model.checkpoints is False for model in facts.models):
        return (checkpointing_off.no_change("activation checkpointing was not used"),)
    return (
        checkpointing_off.proposal(
            "activations are kept, and not computed again in the backward pass",
            Wrap(_TARGET, "checkpointing-off"),
            applicability=Applicability.IDENTICAL,
            risk="more memory: it may not fit",
        ),
    )
