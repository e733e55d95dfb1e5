"""Gradients that are reduced over ranks after each micro-batch of a step."""

from typing import Final

from gapless.catalogue import examples, windowed
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Drop, Hosted, Omit, Scale
from gapless.model.facts import Parallel, World
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

# What DDP does beside: gradients go into buckets, and back. Without a device that takes time.
REDUCERS: Final = (
    "torch::distributed::reducer::mul_out",
    "torch::distributed::reducer::copy_",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
)
_LEAVES: Final = ("comm.", "idle.comm.")
_CALL: Final = "c10d::allreduce_"
_LATER: Final = 1.5  # of the waits for others, what may stay: they are met once in the end
_LEAST: Final = 0.02  # of the step
_ROUND: Final = 0.02  # so far from a whole number may the mean be: an epoch's last step has fewer
_MADE: Final = 0.9  # reductions of each backward pass, at least
_WORLD: Final = (examples.ddp(), examples.world(ranks=2, micro_batches=4.0))


@rule(
    "G602",
    "needless-reductions",
    since="0.1",
    figures=[
        Figure(
            "Four micro-batches a step, reduced each time",
            "Gradients are reduced over 2 ranks after each of 4 backward passes of a step, and "
            "only the last needs it: communication takes 16.0 ms of each 40.0 ms step.",
            stated(
                examples.cpu(*_WORLD),
                {"busy.math": 24, "comm.exposed": 12, "comm.straggler_wait": 4},
                operator(_CALL, calls=4, host_ms=1),
            ),
        ),
        Figure(
            "no_sync() is called already",
            None,
            stated(
                examples.cpu(*_WORLD, no_sync=300),
                {"busy.math": 36, "comm.exposed": 4},
                operator(_CALL, calls=1, host_ms=0.3),
            ),
        ),
        Figure(
            "Two losses, two backward passes, and one reduction",
            None,
            stated(
                examples.cpu(examples.ddp(), examples.world(ranks=2, micro_batches=2.0)),
                {"busy.math": 36, "comm.exposed": 4},
                operator(_CALL, calls=1, host_ms=0.3),
            ),
        ),
        Figure(
            "One micro-batch a step",
            None,
            stated(
                examples.cpu(examples.ddp(), examples.world(ranks=2, micro_batches=1.0)),
                {"busy.math": 30, "comm.exposed": 10},
                operator(_CALL, calls=1, host_ms=0.3),
            ),
        ),
    ],
)
def needless_reductions(seen: Seen, parallel: Parallel, world: World) -> Loss | None:
    """Recognise gradient accumulation that reduces the gradients of each micro-batch.

    ## Why it costs time
    DistributedDataParallel reduces gradients over all ranks in each backward pass, unless it runs
    in ``no_sync()``. Where a step adds up several passes, only the sum is needed: the reductions of
    all passes but the last are wasted, as are the ranks' waits for one another in them.

    ## How it is measured
    By the backward passes of a step, which are counted, and the reductions that the windows show:
    at least one for each pass. What goes is the share of the communication that the other passes
    have, waits for other ranks included; without a device also of what DDP copies into its buckets
    and back.
    """
    every = passes(world)
    if parallel.kind != "ddp" or world.ranks < 2 or every is None:  # noqa: PLR2004
        return None
    if seen.facts is not None and seen.facts.calls.get("no_sync"):
        return None
    made, step = windowed.calls(seen, _CALL).count, seen.step_ns
    spent = seen.per_step(*_LEAVES)
    if made < _MADE * every or not step or spent * (1 - 1 / every) < _LEAST * step:
        return None
    return needless_reductions.loss(
        f"Gradients are reduced over {world.ranks} ranks after each of {every} backward passes of "
        f"a step, and only the last needs it: communication takes {windowed.of_step(seen, spent)}.",
        *less_often(seen, every),
        where=parallel.where,
        evidence=(
            Measure("backward passes, a step", every, ""),
            Measure("reductions, a step", made, ""),
            Measure("communication, a step", spent, "ns"),
        ),
        helps=("no-sync",),
    )


def passes(world: World) -> int | None:
    """Give the backward passes of a step; ``None`` where there is one, or they vary."""
    if world.micro_batches is None:
        raise NotSeenError("passes", "the backward passes of a step were not counted")
    every = round(world.micro_batches)
    return every if every > 1 and abs(world.micro_batches - every) <= _ROUND * every else None


def less_often(seen: Seen, every: int) -> tuple[Change, ...]:
    """Give what reducing in one of so many backward passes changes."""
    most = min(1.0, _LATER / every)
    if seen.on_device:
        left = Interval(1 / every, 1 / every, most)
        return (Scale(left, leaves=_LEAVES[:1]), Drop(_LEAVES[1:], keep=1 / every))
    # What exchanges computes too, on processors that the training wants.
    known = {one.name for one in seen.study.tables.operators}
    beside = [Omit((name,), keep=1 / every) for name in REDUCERS if name in known]
    return (Hosted(_LEAVES, Interval(0.0, 1 / every, most)), *beside)
