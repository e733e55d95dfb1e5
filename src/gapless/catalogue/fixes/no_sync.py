"""Gradients are exchanged once a step, not once a micro-batch."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import propose_for_ddp
from gapless.catalogue.declare import Case, Option, fix
from gapless.catalogue.targets import DDP
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.facts import Facts, Parallel

_MAX_DEVIATION: Final = 0.02  # so far from a whole number may the mean be: an epoch's last step has fewer


@fix(
    "no-sync",
    since="0.1",
    value="MICRO_BATCHES",
    cases=[
        Case(
            "Four micro-batches a step",
            examples.gpu(examples.ddp(), examples.world(ranks=2, micro_batches=4.0)),
            "equivalent: gradients are exchanged in one of 4 backward passes",
            edits=(Wrap(DDP, "no-sync", {"every": 4}),),
        ),
        Case(
            "No accumulation",
            examples.gpu(examples.ddp(), examples.world(ranks=2)),
            "nothing to change: there is one backward pass a step",
        ),
        Case(
            "no_sync() is in use",
            examples.gpu(examples.ddp(), examples.world(ranks=2, micro_batches=4.0), no_sync=900),
            "nothing to change: the script calls no_sync() already (900 times)",
        ),
        Case(
            "The passes were not counted",
            examples.gpu(examples.ddp(), examples.world(micro_batches=None)),
            "refused: the backward passes of a step were not counted: say how many, by no-sync=N",
        ),
        Case(
            "Steps of different numbers of passes",
            examples.gpu(examples.ddp(), examples.world(micro_batches=2.5)),
            "refused: a step has 2.50 backward passes on the mean, so which is the last is not "
            "known",
        ),
        Case(
            "Two optimizers",
            examples.gpu(
                examples.ddp(),
                examples.optimizer(),
                examples.optimizer(id=1),
                examples.world(ranks=2, micro_batches=2.0),
            ),
            "refused: several optimizers step, so which passes belong to one step is not known: "
            "say how many, by no-sync=N",
        ),
        Case("No DDP", examples.gpu(), "refused: no model is wrapped in DistributedDataParallel"),
    ],
)
def no_sync(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange gradients after the last micro-batch of a step only (DDP's ``no_sync()``).

    ## Precondition
    A model in DistributedDataParallel, and the same number of backward passes in each step, more
    than one.

    ## Safety
    Equivalent: gradients are summed over micro-batches first and over ranks then. Each rank holds
    its own gradients until then, as it does anyway.
    """

    def propose(module: Parallel) -> Proposal:
        calls = facts.calls.get("no_sync")
        mean_passes = facts.world.micro_batches
        if len(facts.optimizers) > 1 and option.value is None:
            reason = "several optimizers step, so which passes belong to one step is not known: say "
            return no_sync.refusal(f"{reason}how many, by no-sync=N", module.location)
        if calls:
            words = f"the script calls no_sync() already ({calls} times)"
            return no_sync.no_change(words, module.location)
        if mean_passes is None and option.value is None:
            reason = "the backward passes of a step were not counted: say how many, by no-sync=N"
            return no_sync.refusal(reason, module.location)
        period = option.parse_number(round(mean_passes or 1))
        if option.value is None and abs((mean_passes or 1) - period) > _MAX_DEVIATION * period:
            reason = f"a step has {mean_passes:.2f} backward passes on the mean, so which is the last is not "
            return no_sync.refusal(f"{reason}known", module.location)
        if period == 1:
            return no_sync.no_change("there is one backward pass a step", module.location)
        return no_sync.proposal(
            f"gradients are exchanged in one of {period} backward passes",
            Wrap(DDP, "no-sync", {"every": period}),
            applicability=Applicability.EQUIVALENT,
            risk="gradients are summed in another order",
            location=module.location,
        )

    return propose_for_ddp(no_sync, facts, option, propose)
