"""Let the optimizer do its step in one kernel."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import name_line, public_name, select_optimizers, uses_cuda
from gapless.catalogue.queries import optimizer_steps
from gapless.catalogue.queries.optimizer_steps import find_proposed_optimizer
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Optimizer

# The torch version since which an optimizer can be fused, on CUDA and on a CPU.
_ADAGRAD: Final = "torch.optim.adagrad.Adagrad"
_SUPPORTED_SINCE: Final = {
    "torch.optim.adam.Adam": {"cuda": (2, 0), "cpu": (2, 4)},
    "torch.optim.adamw.AdamW": {"cuda": (2, 0), "cpu": (2, 4)},
    "torch.optim.sgd.SGD": {"cuda": (2, 3), "cpu": (2, 4)},
    _ADAGRAD: {"cuda": (2, 13), "cpu": (2, 4)},
}


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what changes of the optimizer's step, for replay."""
    if optimizer_steps.find_way(evidence) is None or optimizer_steps.has_sparse_gradients(evidence):
        return None
    optimizer = find_proposed_optimizer(evidence, proposal)
    return optimizer_steps.change_way(evidence, "fused", optimizer) or None


@fix(
    "fused",
    effect=_predict_changes,
    cases="""
    # AdamW on a GPU
    > equivalent: AdamW at train.py:52: fused None → True
    gpu(), SetArgument("torch.optim.AdamW", "fused", value=True, where=OPTIMIZER_LINE)
    # foreach was asked for, which excludes it
    > equivalent: AdamW at train.py:52: fused None → True, foreach True → False
    gpu(optimizer(foreach=True))
    # Already so
    > nothing to change: AdamW at train.py:52: fused is already True
    gpu(optimizer(fused=True))
    # A CPU, and a torch that does not support it there
    > refused: AdamW at train.py:52 can be fused on cpu since torch 2.4, and this is 2.3
    cpu(world(torch=(2, 3)))
    # A class without a fused step
    > refused: RMSprop at train.py:52 has no fused implementation
    gpu(optimizer(name="torch.optim.rmsprop.RMSprop"))
    # No optimizer
    > refused: no optimizer was seen
    bare_facts()
    # A device without a fused step
    > refused: AdamW at train.py:52 cannot be fused on hpu
    cpu(optimizer(device="hpu:0"))
    """,
)
def fused(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the optimizer do its whole step in a few kernels (``fused=True``).

    It is never the default.

    ## Precondition
    Adam, AdamW, SGD or Adagrad of torch, on CUDA or (since torch 2.4) on a CPU.

    ## Safety
    Equivalent: the same formula, but the last bits may be rounded differently.
    """
    proposals = tuple(_propose(facts, optimizer) for optimizer in select_optimizers(facts, option))
    return proposals or (fused.refusal("no optimizer was seen"),)


def _propose(facts: Facts, optimizer: Optimizer) -> Proposal:
    subject = f"{optimizer.name.rpartition('.')[2]} at {name_line(optimizer.location)}"
    if optimizer.fused:
        return fused.no_change(f"{subject}: fused is already True", optimizer.location)
    reason = _find_obstacle(facts, optimizer, subject)
    if reason is not None:
        return fused.refusal(reason, optimizer.location)
    edits: list[Edit] = [
        SetArgument(public_name(optimizer.name), "fused", value=True, where=optimizer.location)
    ]
    summary = f"{subject}: fused {optimizer.fused} → True"
    if optimizer.foreach:
        edits.append(
            SetArgument(
                public_name(optimizer.name), "foreach", value=False, where=optimizer.location
            )
        )
        summary += ", foreach True → False"
    return fused.proposal(
        summary,
        *edits,
        applicability=Applicability.EQUIVALENT,
        risk="the last bits may be rounded differently",
        location=optimizer.location,
    )


def _find_obstacle(facts: Facts, optimizer: Optimizer, subject: str) -> str | None:
    versions, torch = _SUPPORTED_SINCE.get(optimizer.name), facts.world.torch
    if versions is None:
        return f"{subject} has no fused implementation"
    device = (optimizer.device or ("cuda" if uses_cuda(facts) else "cpu")).partition(":")[0]
    since = versions.get(device)
    if since is None:
        return f"{subject} cannot be fused on {device}"
    if torch is not None and torch < since:
        needed_text, torch_text = (".".join(map(str, version)) for version in (since, torch))
        return (
            f"{subject} can be fused on {device} since torch {needed_text}, and this is "
            f"{torch_text}"
        )
    return None
