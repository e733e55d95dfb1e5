"""Exchange gradients once a step, not once a micro-batch."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import propose_for_ddp
from gapless.catalogue.declare.targets import DDP
from gapless.catalogue.effects.occasions import find_proposed_period
from gapless.model.change import Change, Drop, HostChange, Omit, Scale
from gapless.model.edit import Applicability, Proposal, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts, Parallel
from gapless.model.reducer import COPY_BACK

# Allowed deviation of the mean from a whole number: an epoch's last step has fewer.
_MAX_DEVIATION: Final = 0.02
# DDP also copies gradients into buckets and back; without a device that takes time.
REDUCERS: Final = (
    "torch::distributed::reducer::mul_out",
    "torch::distributed::reducer::copy_",
    COPY_BACK,
)
COMMUNICATION: Final = ("comm.", "idle.comm.")
_WAIT_FACTOR: Final = 1.5  # of the waits for others, may remain: ranks still meet once


def changes_with_no_sync(evidence: Evidence, passes: int) -> tuple[Change, ...]:
    """Return what reducing in one of so many backward passes changes."""
    max_share = min(1.0, _WAIT_FACTOR / passes)
    if evidence.on_device:
        remaining = Estimate(1 / passes, 1 / passes, max_share)
        return (
            Scale(remaining, leaves=COMMUNICATION[:1]),
            Drop(COMMUNICATION[1:], keep=1 / passes),
        )
    # The exchange computes, too, on processors that the training needs.
    operator_names = {row.name for row in evidence.study.tables.operators}
    reducer_omits = [Omit((name,), keep=1 / passes) for name in REDUCERS if name in operator_names]
    return (HostChange(COMMUNICATION, Estimate(0.0, 1 / passes, max_share)), *reducer_omits)


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what changes of the exchange, for replay."""
    period = find_proposed_period(proposal)
    return None if period is None else changes_with_no_sync(evidence, period)


@fix(
    "no-sync",
    effect=_predict_changes,
    value="MICRO_BATCHES",
    cases="""
    # Four micro-batches a step
    > equivalent: gradients are exchanged in one of 4 backward passes
    gpu(ddp(), world(ranks=2, micro_batches=4.0)), Wrap(DDP, "no-sync", {"every": 4})
    # No accumulation
    > nothing to change: there is one backward pass a step
    gpu(ddp(), world(ranks=2))
    # no_sync() is in use
    > nothing to change: the script calls no_sync() already (900 times)
    gpu(ddp(), world(ranks=2, micro_batches=4.0), no_sync=900)
    # The passes were not counted
    > refused: the backward passes of a step were not counted: give the number by no-sync=N
    gpu(ddp(), world(micro_batches=None))
    # Steps of different numbers of passes
    > refused: a step has 2.50 backward passes on average, so which one is the last is not known
    gpu(ddp(), world(micro_batches=2.5))
    # Two optimizers
    > refused: several optimizers step, so which passes belong to one step is not known: give the
      number by no-sync=N
    gpu(ddp(), optimizer(), optimizer(id=1), world(ranks=2, micro_batches=2.0))
    # No DDP
    > refused: no model is wrapped in DistributedDataParallel
    gpu()
    """,
)
def no_sync(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Exchange gradients only after the last micro-batch of a step (DDP's ``no_sync()``).

    ## Precondition
    A model in DistributedDataParallel, and the same number of backward passes in each step, more
    than one.

    ## Safety
    Equivalent: gradients are summed over micro-batches first, then over ranks. Each rank holds its
    own gradients until then, as it does anyway.
    """

    def propose(module: Parallel) -> Proposal:
        calls = facts.calls.get("no_sync")
        mean_passes = facts.world.micro_batches
        if len(facts.optimizers) > 1 and option.value is None:
            reason = (
                "several optimizers step, so which passes belong to one step is not known: give "
            )
            return no_sync.refusal(f"{reason}the number by no-sync=N", module.location)
        if calls:
            words = f"the script calls no_sync() already ({calls} times)"
            return no_sync.no_change(words, module.location)
        if mean_passes is None and option.value is None:
            reason = "the backward passes of a step were not counted: give the number by no-sync=N"
            return no_sync.refusal(reason, module.location)
        period = option.parse_number(round(mean_passes or 1))
        if option.value is None and abs((mean_passes or 1) - period) > _MAX_DEVIATION * period:
            reason = (
                f"a step has {mean_passes:.2f} backward passes on average, so which one is the last"
            )
            return no_sync.refusal(f"{reason} is not known", module.location)
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
