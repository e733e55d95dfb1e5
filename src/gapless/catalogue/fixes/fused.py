"""An optimizer whose step is one kernel."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import named, on_cuda, optimizers, public
from gapless.catalogue.declare import Case, Option, fix
from gapless.model.edit import Applicability, Edit, Proposal, SetArgument
from gapless.model.facts import Facts, Optimizer

# Since which torch an optimizer can be fused, on CUDA and on a CPU.
_ADAGRAD: Final = "torch.optim.adagrad.Adagrad"
_HAVE: Final = {
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
        Case("No optimizer", examples.bare(), "refused: no optimizer was seen"),
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
    found = tuple(_proposed(facts, one) for one in optimizers(facts, option))
    return found or (fused.refusal("no optimizer was seen"),)


def _proposed(facts: Facts, one: Optimizer) -> Proposal:
    which = f"{one.name.rpartition('.')[2]} at {named(one.where)}"
    if one.fused:
        return fused.nothing(f"{which}: fused is already True", one.where)
    why = _refused(facts, one, which)
    if why is not None:
        return fused.refusal(why, one.where)
    edits: list[Edit] = [SetArgument(public(one.name), "fused", value=True, where=one.where)]
    does = f"{which}: fused {one.fused} → True"
    if one.foreach:
        edits.append(SetArgument(public(one.name), "foreach", value=False, where=one.where))
        does += ", foreach True → False"
    return fused.proposal(
        does,
        *edits,
        applicability=Applicability.EQUIVALENT,
        risk="rounded otherwise in the last bits",
        where=one.where,
    )


def _refused(facts: Facts, one: Optimizer, which: str) -> str | None:
    have, torch = _HAVE.get(one.name), facts.world.torch
    if have is None:
        return f"{which} has no fused implementation"
    device = (one.device or ("cuda" if on_cuda(facts) else "cpu")).partition(":")[0]
    since = have.get(device)
    if since is None:
        return f"{which} cannot be fused on {device}"
    if torch is not None and torch < since:
        need, have_it = (".".join(map(str, one)) for one in (since, torch))
        return f"{which} can be fused on {device} since torch {need}, and this is {have_it}"
    return None
