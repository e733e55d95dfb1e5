"""An optimizer whose step is one kernel."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import name_line, uses_cuda, select_optimizers, public_name
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument
from gapless.model.facts import Facts, Optimizer

# Since which torch an optimizer can be fused, on CUDA and on a CPU.
_ADAGRAD: Final = "torch.optim.adagrad.Adagrad"
_SUPPORTED_SINCE: Final = {
    "torch.optim.adam.Adam": {"cuda": (2, 0), "cpu": (2, 4)},
    "torch.optim.adamw.AdamW": {"cuda": (2, 0), "cpu": (2, 4)},
    "torch.optim.sgd.SGD": {"cuda": (2, 3), "cpu": (2, 4)},
    _ADAGRAD: {"cuda": (2, 13), "cpu": (2, 4)},
}


@fix(
    "fused",
    since="0.1",
    cases=[
        Case(
            "AdamW on a GPU",
            examples.gpu(),
            "equivalent: AdamW at train.py:52: fused None → True",
            edits=(
                SetArgument(
                    "torch.optim.AdamW",
                    "fused",
                    value=True,
                    where=examples.OPTIMIZER_LINE,
                ),
            ),
        ),
        Case(
            "foreach was asked for, which excludes it",
            examples.gpu(examples.optimizer(foreach=True)),
            "equivalent: AdamW at train.py:52: fused None → True, foreach True → False",
        ),
        Case(
            "It is so already",
            examples.gpu(examples.optimizer(fused=True)),
            "nothing to change: AdamW at train.py:52: fused is already True",
        ),
        Case(
            "A CPU, and a torch that cannot do it there",
            examples.cpu(examples.world(torch=(2, 3))),
            "refused: AdamW at train.py:52 can be fused on cpu since torch 2.4, and this is 2.3",
        ),
        Case(
            "A class that has no such way",
            examples.gpu(examples.optimizer(name="torch.optim.rmsprop.RMSprop")),
            "refused: RMSprop at train.py:52 has no fused implementation",
        ),
        Case("No optimizer", examples.bare_facts(), "refused: no optimizer was seen"),
        Case(
            "A device on which it has no such way",
            examples.cpu(examples.optimizer(device="hpu:0")),
            "refused: AdamW at train.py:52 cannot be fused on hpu",
        ),
    ],
)
def fused(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Let the optimizer do its whole step in a few kernels (``fused=True``).

    torch never does so by itself.

    ## Precondition
    Adam, AdamW, SGD or Adagrad of torch, on CUDA or (since torch 2.4) on a CPU.

    ## Safety
    Equivalent: the same formula, rounded otherwise in the last bits.
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
    edits: list[Edit] = [SetArgument(public_name(optimizer.name), "fused", value=True, where=optimizer.location)]
    summary = f"{subject}: fused {optimizer.fused} → True"
    if optimizer.foreach:
        edits.append(SetArgument(public_name(optimizer.name), "foreach", value=False, where=optimizer.location))
        summary += ", foreach True → False"
    return fused.proposal(
        summary,
        *edits,
        applicability=Applicability.EQUIVALENT,
        risk="rounded otherwise in the last bits",
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
        return f"{subject} can be fused on {device} since torch {needed_text}, and this is {torch_text}"
    return None
