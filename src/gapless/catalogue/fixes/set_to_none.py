"""Gradients that are dropped, not set to zero."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.facts import Facts

_TARGETS: Final = ("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")


@fix(
    "set-to-none",
    since="0.1",
    cases=[
        Case(
            "Gradients are set to zero",
            examples.gpu(zero_grad_to_zero=312),
            "risky: zero_grad() drops gradients (set_to_none False → True)",
            edits=tuple(SetArgument(target, "set_to_none", value=True) for target in _TARGETS),
        ),
        Case(
            "They are dropped, as torch does by default",
            examples.gpu(zero_grad_to_zero=0),
            "nothing to change: no zero_grad(set_to_none=False) was seen",
        ),
    ],
)
def set_to_none(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Let ``zero_grad`` drop gradients instead of writing zeros.

    ## Precondition
    A script that calls ``zero_grad(set_to_none=False)``: since torch 2.0 dropping is the default.

    ## Safety
    Risky: what reads ``.grad`` after ``zero_grad`` gets ``None`` instead of zeros, and an optimizer
    leaves a parameter without a gradient alone, where zeros would go on with momentum and decay.
    """
    if facts.calls.get("zero_grad_to_zero") == 0:
        return (set_to_none.no_change("no zero_grad(set_to_none=False) was seen"),)
    return (
        set_to_none.proposal(
            "zero_grad() drops gradients (set_to_none False → True)",
            *(SetArgument(target, "set_to_none", value=True) for target in _TARGETS),
            applicability=Applicability.RISKY,
            risk="parameters without a gradient are left alone, without momentum or decay",
        ),
    )
