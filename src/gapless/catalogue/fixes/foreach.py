"""An optimizer that treats all tensors at once."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import name_line, select_optimizers, public_name
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Proposal, SetArgument
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


@fix(
    "foreach",
    since="0.1",
    cases=[
        Case(
            "Switched off",
            examples.gpu(examples.optimizer(foreach=False)),
            "equivalent: AdamW at train.py:52: foreach False → True",
            edits=(
                SetArgument(
                    "torch.optim.AdamW",
                    "foreach",
                    value=True,
                    where=examples.OPTIMIZER_LINE,
                ),
            ),
        ),
        Case(
            "As torch has it, on a CPU",
            examples.cpu(),
            "equivalent: AdamW at train.py:52: foreach None → True",
        ),
        Case(
            "As torch has it, on a GPU",
            examples.gpu(),
            "nothing to change: AdamW at train.py:52 uses foreach on CUDA by itself",
        ),
        Case(
            "A fused one",
            examples.gpu(examples.optimizer(fused=True)),
            "nothing to change: AdamW at train.py:52 is fused, which is more",
        ),
        Case(
            "A class that has no such way",
            examples.gpu(examples.optimizer(name="torch.optim.lbfgs.LBFGS")),
            "refused: LBFGS at train.py:52 has no foreach implementation",
        ),
        Case("No optimizer", examples.bare_facts(), "refused: no optimizer was seen"),
        Case(
            "It is so already",
            examples.cpu(examples.optimizer(foreach=True, device="cpu")),
            "nothing to change: AdamW at train.py:52: foreach is already True",
        ),
    ],
)
def foreach(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the optimizer treat many tensors in one kernel (``foreach=True``).

    ## Precondition
    An optimizer of torch that has it. On CUDA torch uses it by itself, unless told otherwise.

    ## Safety
    Equivalent: the same formula, maybe rounded otherwise in the last bits. It needs memory for
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
        return foreach.no_change(f"{subject} is fused, which is more", optimizer.location)
    if optimizer.foreach:
        return foreach.no_change(f"{subject}: foreach is already True", optimizer.location)
    if optimizer.foreach is None and (optimizer.device or "").startswith("cuda"):
        return foreach.no_change(f"{subject} uses foreach on CUDA by itself", optimizer.location)
    return foreach.proposal(
        f"{subject}: foreach {optimizer.foreach} → True",
        SetArgument(public_name(optimizer.name), "foreach", value=True, where=optimizer.location),
        applicability=Applicability.EQUIVALENT,
        risk="rounded otherwise in the last bits",
        location=optimizer.location,
    )
