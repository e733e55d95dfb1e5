"""Gradients that are exchanged one by one behind the backward pass."""

from typing import Final

from gapless.catalogue import examples, optimizing, ranked, windowed
from gapless.catalogue.rank_examples import together
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Hosted, Scale
from gapless.model.facts import World
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_CALL: Final = "c10d::allreduce_"
_TRANSFER: Final = "comm.exposed"
_ISSUING: Final = "idle.comm."
_LEAST: Final = 0.05  # of the step
_FEW: Final = 4  # a step: of buckets there are as few
_HIDDEN: Final = 0.1  # of their time on the device: then something overlaps them
_EACH: Final = 0.9  # of the parameters
# What overlapping and few large calls leave: nothing if the backward pass hides all, all if it is
# short and bytes take the time.
_LEFT: Final = Interval(0.0, 0.5, 1.0)
_SPREAD: Final = ("ddp", "fsdp")
_RANKS: Final = examples.world(ranks=2)


@rule(
    "G603",
    "unhidden-collectives",
    since="0.1",
    figures=[
        Figure(
            "for p in model.parameters(): dist.all_reduce(p.grad)",
            "Gradients are reduced over 2 ranks by 161 calls a step, one for each parameter, and "
            "nothing is computed meanwhile: that takes 40.0 ms of each 64.0 ms step.",
            together(
                examples.cpu(_RANKS, examples.optimizer(tensors=161)),
                {"busy.math": 24, "comm.exposed": 34, "idle.comm.host": 6},
                {"busy.math": 24, "comm.exposed": 34, "idle.comm.host": 6},
                parts=(operator(_CALL, calls=2 * 161, host_ms=12),),  # of both
            ),
        ),
        Figure(
            "DistributedDataParallel reduces buckets beside the backward pass",
            None,
            together(
                examples.cpu(_RANKS, examples.ddp()),
                {"busy.math": 54, "comm.exposed": 10},
                {"busy.math": 54, "comm.exposed": 10},
                parts=(operator(_CALL, calls=9, host_ms=1),),
            ),
        ),
        Figure(
            "All gradients in a single call",
            None,
            together(
                examples.cpu(_RANKS, examples.optimizer(tensors=161)),
                {"busy.math": 54, "comm.exposed": 10},
                {"busy.math": 54, "comm.exposed": 10},
                parts=(operator(_CALL, calls=1, host_ms=1),),
            ),
        ),
    ],
)
def unhidden_collectives(seen: Seen, world: World) -> Loss | None:
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
    spread = bool(seen.facts and any(one.kind in _SPREAD for one in seen.facts.parallel))
    if world.ranks < 2 or spread:  # noqa: PLR2004 - one has nobody to reduce with
        return None
    calls, step = windowed.calls(seen, _CALL).count, seen.step_ns
    exposed = ranked.least(seen, _TRANSFER)
    lost = exposed + ranked.least(seen, _ISSUING)
    if calls < _FEW or not step or lost < _LEAST * step or _hidden(seen) > _HIDDEN:
        return None
    many = optimizing.tensors(seen)
    each = ", one for each parameter," if many and _EACH * many <= calls <= many / _EACH else ""
    leaves = (_TRANSFER, _ISSUING)
    return unhidden_collectives.loss(
        f"Gradients are reduced over {world.ranks} ranks by {windowed.times(calls)} calls a "
        f"step{each} and nothing is computed meanwhile: that takes {windowed.of_step(seen, lost)}.",
        Scale(_LEFT, leaves=leaves[:1]) if seen.on_device else Hosted(leaves, _LEFT),
        where=windowed.site(seen, _CALL, "c10d::*"),
        evidence=(
            Measure("calls of all_reduce, a step", calls, ""),
            Measure("exposed, a step", lost, "ns"),
        ),
        no_remedy=(
            "DistributedDataParallel reduces gradients in buckets while the backward pass runs; by "
            "hand: flatten them into one tensor, and reduce that by a single call"
        ),
    )


def _hidden(seen: Seen) -> float:
    """Give the share of the collectives' time that lies beside other work of the device."""
    rows = seen.study.tables.collectives
    whole = sum(one.exposed_ns + one.hidden_ns for one in rows)
    return sum(one.hidden_ns for one in rows) / whole if whole else 0.0
