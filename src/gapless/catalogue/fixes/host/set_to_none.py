"""Drop gradients instead of setting them to zero."""

from typing import Final

from gapless.catalogue.declare.fix import Option, fix
from gapless.model.change import Change, Omit
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts

_TARGETS: Final = ("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")
ZERO_CALL: Final = "Optimizer.zero_grad#*"
_ACCUMULATE: Final = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
_REMAINS: Final = 0.1  # of a zero_grad, if it only drops references
_REPLACED_SHARE: Final = 0.4  # of accumulating, if gradients replace and are not added


@fix(
    "set-to-none",
    effect=lambda evidence, _proposal: changes_when_dropped(evidence),
    cases="""
    # Gradients are set to zero
    > risky: zero_grad() drops gradients (set_to_none False → True)
    gpu(zero_grad_to_zero=312)
    *tuple((SetArgument(target, "set_to_none", value=True) for target in _TARGETS))
    # They are dropped, as torch does by default
    > nothing to change: no zero_grad(set_to_none=False) was seen
    gpu(zero_grad_to_zero=0)
    """,
)
def set_to_none(facts: Facts, _option: Option) -> tuple[Proposal, ...]:
    """Let ``zero_grad`` drop gradients instead of writing zeros.

    ## Precondition
    A script that calls ``zero_grad(set_to_none=False)``: since torch 2.0 dropping is the default.

    ## Safety
    Risky: code that reads ``.grad`` after ``zero_grad`` gets ``None`` instead of zeros, and an
    optimizer skips a parameter without a gradient; with zeros, momentum and decay still apply.
    """
    if facts.calls.get("zero_grad_to_zero") == 0:
        return (set_to_none.no_change("no zero_grad(set_to_none=False) was seen"),)
    return (
        set_to_none.proposal(
            "zero_grad() drops gradients (set_to_none False → True)",
            *(SetArgument(target, "set_to_none", value=True) for target in _TARGETS),
            applicability=Applicability.RISKY,
            risk="parameters without a gradient are skipped, without momentum or decay",
        ),
    )


def changes_when_dropped(evidence: Evidence) -> tuple[Change, ...]:
    """Return what changes if gradients are dropped."""
    passes = evidence.facts.world.micro_batches or 1.0
    share = (passes - 1 + _REPLACED_SHARE) / passes  # later passes of a step still accumulate
    return (Omit((ZERO_CALL,), keep=_REMAINS), Omit((_ACCUMULATE,), keep=min(1.0, share)))
