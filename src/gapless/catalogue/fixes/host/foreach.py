"""Let the optimizer update all tensors at once."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import name_line, public_name, select_optimizers
from gapless.catalogue.queries import optimizer_steps
from gapless.catalogue.queries.optimizer_steps import find_proposed_optimizer
from gapless.model.change import HostChange
from gapless.model.edit import Applicability, Proposal, SetArgument
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Optimizer

_SUPPORTED: Final = {
    "torch.optim._adafactor.Adafactor",
    "torch.optim.adadelta.Adadelta",
    "torch.optim.adagrad.Adagrad",
    "torch.optim.adam.Adam",
    "torch.optim.adamax.Adamax",
    "torch.optim.adamw.AdamW",
    "torch.optim.asgd.ASGD",
    "torch.optim.nadam.NAdam",
    "torch.optim.radam.RAdam",
    "torch.optim.rmsprop.RMSprop",
    "torch.optim.rprop.Rprop",
    "torch.optim.sgd.SGD",
}
# torch still takes tensors with sparse gradients one by one: to find that costs next to nothing.
_NO_EFFECT: Final[Changes] = (HostChange(("idle.host.optimizer",), Estimate(0.98, 1.0, 1.05)),)


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what changes of the optimizer's step, for replay."""
    if optimizer_steps.find_way(evidence) != "loop":
        return None
    if optimizer_steps.has_sparse_gradients(evidence):
        return _NO_EFFECT
    optimizer = find_proposed_optimizer(evidence, proposal)
    return optimizer_steps.change_way(evidence, "foreach", optimizer) or None


@fix(
    "foreach",
    effect=_predict_changes,
    cases="""
    # Switched off
    > equivalent: AdamW at train.py:52: foreach False → True
    gpu(optimizer(foreach=False))
    SetArgument("torch.optim.AdamW", "foreach", value=True, where=OPTIMIZER_LINE)
    # torch's default, on a CPU
    > equivalent: AdamW at train.py:52: foreach None → True
    cpu()
    # torch's default, on a GPU
    > nothing to change: AdamW at train.py:52 uses foreach on CUDA by default
    gpu()
    # A fused optimizer
    > nothing to change: AdamW at train.py:52 is fused, which does more
    gpu(optimizer(fused=True))
    # A class without foreach
    > refused: LBFGS at train.py:52 has no foreach implementation
    gpu(optimizer(name="torch.optim.lbfgs.LBFGS"))
    # No optimizer
    > refused: no optimizer was seen
    bare_facts()
    # Already so
    > nothing to change: AdamW at train.py:52: foreach is already True
    cpu(optimizer(foreach=True, device="cpu"))
    """,
)
def foreach(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the optimizer update many tensors in one kernel (``foreach=True``).

    ## Precondition
    An optimizer of torch that supports it. On CUDA it is the default.

    ## Safety
    Equivalent: the same formula, but the last bits may be rounded differently. It needs memory for
    intermediate values of all parameters at once.
    """
    proposals = tuple(_propose(optimizer) for optimizer in select_optimizers(facts, option))
    return proposals or (foreach.refusal("no optimizer was seen"),)


def _propose(optimizer: Optimizer) -> Proposal:
    class_name = optimizer.name.rpartition(".")[2]
    subject = f"{class_name} at {name_line(optimizer.location)}"
    if optimizer.name not in _SUPPORTED:
        return foreach.refusal(f"{subject} has no foreach implementation", optimizer.location)
    if optimizer.fused:
        return foreach.no_change(f"{subject} is fused, which does more", optimizer.location)
    if optimizer.foreach:
        return foreach.no_change(f"{subject}: foreach is already True", optimizer.location)
    if optimizer.foreach is None and (optimizer.device or "").startswith("cuda"):
        return foreach.no_change(f"{subject} uses foreach on CUDA by default", optimizer.location)
    return foreach.proposal(
        f"{subject}: foreach {optimizer.foreach} → True",
        SetArgument(public_name(optimizer.name), "foreach", value=True, where=optimizer.location),
        applicability=Applicability.EQUIVALENT,
        risk="the last bits may be rounded differently",
        location=optimizer.location,
    )
