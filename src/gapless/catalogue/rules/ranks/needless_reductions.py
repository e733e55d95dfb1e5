"""Gradients that are reduced over ranks after each micro-batch of a step."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.ranks.no_sync import COMMUNICATION, changes_with_no_sync, no_sync
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Parallel, World
from gapless.model.finding import Detection, Measure
from gapless.model.reducer import REDUCE_CALL

_MIN_STEP_SHARE: Final = 0.02  # of the step
_ROUND: Final = 0.02  # deviation of the mean from a whole number: last steps have fewer
_MIN_PASS_SHARE: Final = 0.9  # reductions of each backward pass, at least


@rule(
    "G602",
    "needless-reductions",
    figures="""
    the_world = (ddp(), world(ranks=2, micro_batches=4.0))
    # Four micro-batches a step, reduced each time
    > Gradients are reduced over 2 ranks after each of 4 backward passes of a step, and only the
      last needs it: communication takes 16.0 ms of each 40.0 ms step.
    cpu(*the_world)
    busy.math 24, comm.exposed 12, comm.straggler_wait 4
    operator(REDUCE_CALL, calls=4, host_ms=1)
    # Forty micro-batches, each of which is recorded as a step
    > Gradients are reduced over 2 ranks after each of 40 backward passes of a step, and only the
      last needs it: communication takes 16.0 ms of each 40.0 ms step.
    cpu(ddp(), world(ranks=2, micro_batches=40.0, steps_are_passes=True))
    busy.math 24, comm.exposed 12, comm.straggler_wait 4
    operator(REDUCE_CALL, calls=1, host_ms=0.4)
    # no_sync() is called already
    cpu(*the_world, no_sync=300)
    busy.math 36, comm.exposed 4
    operator(REDUCE_CALL, calls=1, host_ms=0.3)
    # Two losses, two backward passes, and one reduction
    cpu(ddp(), world(ranks=2, micro_batches=2.0))
    busy.math 36, comm.exposed 4
    operator(REDUCE_CALL, calls=1, host_ms=0.3)
    # One micro-batch a step
    cpu(ddp(), world(ranks=2, micro_batches=1.0))
    busy.math 30, comm.exposed 10
    operator(REDUCE_CALL, calls=1, host_ms=0.3)
    """,
)
def needless_reductions(evidence: Evidence, parallel: Parallel, world: World) -> Detection | None:
    """Recognise gradient accumulation that reduces the gradients of each micro-batch.

    ## Why it costs time
    DistributedDataParallel reduces gradients over all ranks in each backward pass, unless it runs
    in ``no_sync()``. Where a step adds up several passes, only the sum is needed: the reductions of
    all passes but the last are wasted, as are the ranks' waits for one another in them.

    ## How it is measured
    By the backward passes of a step, which are counted, and the reductions that the windows show:
    at least one for each pass. What is saved is the share of the other passes in communication,
    including waits for other ranks; without a device also in DDP's copies into its buckets and
    back.
    """
    passes = count_passes(world)
    if parallel.kind != "ddp" or world.ranks < 2 or passes is None:  # noqa: PLR2004
        return None
    if evidence.facts.calls.get("no_sync"):
        return None
    n_reductions, step_ns = windows.sum_calls(evidence, REDUCE_CALL).count, evidence.step_ns
    spent_ns = evidence.per_step(*COMMUNICATION)
    if (
        n_reductions < _MIN_PASS_SHARE * (world.passes_a_step or passes)
        or not step_ns
        or spent_ns * (1 - 1 / passes) < _MIN_STEP_SHARE * step_ns
    ):
        return None
    return needless_reductions.detection(
        f"Gradients are reduced over {world.ranks} ranks after each of {passes} backward passes of "
        "a step, and only the last needs it: communication takes "
        f"{windows.format_step_part(evidence, spent_ns)}.",
        *changes_with_no_sync(evidence, passes),
        location=parallel.location,
        measures=(
            Measure("backward passes, a step", passes, ""),
            Measure("reductions, a step", n_reductions, ""),
            Measure("communication, a step", spent_ns, "ns"),
        ),
        helps=(no_sync.request(),),
    )


def count_passes(world: World) -> int | None:
    """Return the backward passes of a step; ``None`` if there is one, or they vary."""
    if world.micro_batches is None:
        raise NotObservedError("passes", "the backward passes of a step were not counted")
    passes = round(world.micro_batches)
    return passes if passes > 1 and abs(world.micro_batches - passes) <= _ROUND * passes else None
