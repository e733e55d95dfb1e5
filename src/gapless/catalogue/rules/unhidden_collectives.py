"""Gradients that are exchanged one by one behind the backward pass."""

from typing import Final

from gapless.catalogue import examples, optimizing, ranked, windowed
from gapless.catalogue.rank_examples import evidence_of_ranks
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_parts import operator
from gapless.model.change import HostChange, Scale
from gapless.model.facts import World
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence

_REDUCE_CALL: Final = "c10d::allreduce_"
_TRANSFER_LEAF: Final = "comm.exposed"
_ISSUE_LEAVES: Final = "idle.comm."
_MIN_STEP_SHARE: Final = 0.05  # of the step
_MIN_CALLS: Final = 4  # a step: of buckets there are as few
_MAX_HIDDEN_SHARE: Final = 0.1  # of their time on the device: then something overlaps them
_MIN_RATIO: Final = 0.9  # of the parameters
# What overlapping and few large calls leave: nothing if the backward pass hides all, all if it is
# short and bytes take the time.
_REMAINS: Final = Estimate(0.0, 0.5, 1.0)
_WRAPPER_KINDS: Final = ("ddp", "fsdp")
_WORLD: Final = examples.world(ranks=2)


@rule(
    "G603",
    "unhidden-collectives",
    since="0.1",
    figures=[
        RuleFigure(
            "for p in model.parameters(): dist.all_reduce(p.grad)",
            "Gradients are reduced over 2 ranks by 161 calls a step, one for each parameter, and "
            "nothing is computed meanwhile: that takes 40.0 ms of each 64.0 ms step.",
            evidence_of_ranks(
                examples.cpu(_WORLD, examples.optimizer(tensors=161)),
                {"busy.math": 24, "comm.exposed": 34, "idle.comm.host": 6},
                {"busy.math": 24, "comm.exposed": 34, "idle.comm.host": 6},
                parts=(operator(_REDUCE_CALL, calls=2 * 161, host_ms=12),),  # of both
            ),
        ),
        RuleFigure(
            "DistributedDataParallel reduces buckets beside the backward pass",
            None,
            evidence_of_ranks(
                examples.cpu(_WORLD, examples.ddp()),
                {"busy.math": 54, "comm.exposed": 10},
                {"busy.math": 54, "comm.exposed": 10},
                parts=(operator(_REDUCE_CALL, calls=9, host_ms=1),),
            ),
        ),
        RuleFigure(
            "All gradients in a single call",
            None,
            evidence_of_ranks(
                examples.cpu(_WORLD, examples.optimizer(tensors=161)),
                {"busy.math": 54, "comm.exposed": 10},
                {"busy.math": 54, "comm.exposed": 10},
                parts=(operator(_REDUCE_CALL, calls=1, host_ms=1),),
            ),
        ),
    ],
)
def unhidden_collectives(evidence: Evidence, world: World) -> Detection | None:
    """Recognise gradients that are reduced by many calls, beside which nothing is computed.

    ## Why it costs time
    Each call has a latency of its own, whatever it carries, and ranks meet in each. While the
    backward pass still runs, the gradients of the last layers are there: what is reduced then
    costs next to nothing. ``DistributedDataParallel`` does so, in buckets of 25 MB.

    ## How it is measured
    By the calls of ``all_reduce`` in a step where no ``DistributedDataParallel`` makes them, and by
    the account: transfers beside which no rank computes, and the host's time to ask for them. Waits
    for a late rank are another cause. How much of it the backward pass would hide is not known.
    """
    is_wrapped = bool(evidence.facts and any(module.kind in _WRAPPER_KINDS for module in evidence.facts.parallel))
    if world.ranks < 2 or is_wrapped:  # noqa: PLR2004 - one has nobody to reduce with
        return None
    n_calls, step_ns = windowed.sum_calls(evidence, _REDUCE_CALL).count, evidence.step_ns
    exposed_ns = ranked.min_rank_ns(evidence, _TRANSFER_LEAF)
    lost_ns = exposed_ns + ranked.min_rank_ns(evidence, _ISSUE_LEAVES)
    if n_calls < _MIN_CALLS or not step_ns or lost_ns < _MIN_STEP_SHARE * step_ns or _hidden_share(evidence) > _MAX_HIDDEN_SHARE:
        return None
    n_parameters = optimizing.count_tensors(evidence)
    match = ", one for each parameter," if n_parameters and _MIN_RATIO * n_parameters <= n_calls <= n_parameters / _MIN_RATIO else ""
    leaves = (_TRANSFER_LEAF, _ISSUE_LEAVES)
    return unhidden_collectives.detection(
        f"Gradients are reduced over {world.ranks} ranks by {windowed.format_count(n_calls)} calls a "
        f"step{match} and nothing is computed meanwhile: that takes {windowed.format_step_part(evidence, lost_ns)}.",
        Scale(_REMAINS, leaves=leaves[:1]) if evidence.on_device else HostChange(leaves, _REMAINS),
        location=windowed.find_calling_function(evidence, _REDUCE_CALL, "c10d::*"),
        measures=(
            Measure("calls of all_reduce, a step", n_calls, ""),
            Measure("exposed, a step", lost_ns, "ns"),
        ),
        no_remedy=(
            "DistributedDataParallel reduces gradients in buckets while the backward pass runs; by "
            "hand: flatten them into one tensor, and reduce that by a single call"
        ),
    )


def _hidden_share(evidence: Evidence) -> float:
    """Return the share of the collectives' time that lies beside other work of the device."""
    rows = evidence.study.tables.collectives
    total_ns = sum(row.exposed_ns + row.hidden_ns for row in rows)
    return sum(row.hidden_ns for row in rows) / total_ns if total_ns else 0.0
