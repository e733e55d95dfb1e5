"""Fixes of what the host does: optimizers, the collector, switches, how often DDP exchanges."""

from collections.abc import Callable, Mapping
from typing import Final

from gapless.catalogue import optimizing
from gapless.catalogue.rules.anomaly_mode import without_checks
from gapless.catalogue.rules.blocking_launches import freed
from gapless.catalogue.rules.needless_reductions import less_often
from gapless.catalogue.rules.zeroed_gradients import dropped
from gapless.catalogue.ruling import NotSeenError
from gapless.model.change import Change, Drop, Hosted
from gapless.model.edit import Edit, Proposal, SetEnv, SetGlobal, Wrap
from gapless.model.facts import Facts, Optimizer
from gapless.model.interval import Interval
from gapless.model.seen import Seen

Changes = tuple[Change, ...]
# What torch takes to find that it cannot: next to nothing, of the host.
_NOTHING: Final[Changes] = (Hosted(("idle.host.optimizer",), Interval(0.98, 1.0, 1.05)),)


def host(seen: Seen, proposal: Proposal) -> Changes | None:
    """Give what a fix changes of what the host does; ``None``: not before it is tried."""
    if seen.facts is None:
        return None
    try:
        return _HOST[proposal.fix](seen, proposal, seen.facts) or None
    except NotSeenError:
        return None


# ── Optimizers ──────────────────────────────────────────────────────────────────────────────────


def _fused(seen: Seen, proposal: Proposal, facts: Facts) -> Changes:
    of = _optimizer(facts, proposal)
    known = optimizing.way(seen) is not None and not optimizing.sparse(seen)
    return optimizing.faster(seen, "fused", of) if known else ()


def _foreach(seen: Seen, proposal: Proposal, facts: Facts) -> Changes:
    if optimizing.way(seen) != "loop":
        return ()
    if optimizing.sparse(seen):
        return _NOTHING  # torch goes on taking them one by one
    return optimizing.faster(seen, "foreach", _optimizer(facts, proposal))


def _optimizer(facts: Facts, proposal: Proposal) -> Optimizer | None:
    """Give the optimizer that a proposal is about: of its line and class."""
    there = [one for one in facts.optimizers if one.where == proposal.where]
    named = [one for one in there if proposal.summary.startswith(optimizing.of_class(one) + " ")]
    return next(iter(named or there), None)


def _dropped(seen: Seen, _proposal: Proposal, _facts: Facts) -> Changes:
    return dropped(seen)


# ── The collector ───────────────────────────────────────────────────────────────────────────────


def _collector(_seen: Seen, proposal: Proposal, facts: Facts) -> Changes:
    count, every = facts.calls.get("collections"), _every(proposal)
    if not count or not facts.world.steps or every is None:
        return ()
    return (Drop(("idle.gc",), keep=min(1.0, facts.world.steps / count / every)),)


def _every(proposal: Proposal) -> int | None:
    found = [one.options.get("every") for one in proposal.edits if isinstance(one, Wrap)]
    return next((one for one in found if isinstance(one, int) and one > 0), None)


# ── Switches, exchanges ─────────────────────────────────────────────────────────────────────────


def _debug_off(seen: Seen, proposal: Proposal, _facts: Facts) -> Changes:
    return tuple(change for edit in proposal.edits for change in _switched(seen, edit))


def _switched(seen: Seen, edit: Edit) -> Changes:
    match edit:
        case SetEnv():
            return freed(seen)
        case SetGlobal():
            return without_checks(seen)
        case _:
            return ()


def _no_sync(seen: Seen, proposal: Proposal, _facts: Facts) -> Changes:
    every = _every(proposal)
    if every is None:
        return ()
    return less_often(seen, every)


_HOST: Final[Mapping[str, Callable[[Seen, Proposal, Facts], Changes]]] = {
    "fused": _fused,
    "foreach": _foreach,
    "set-to-none": _dropped,
    "collector": _collector,
    "debug-off": _debug_off,
    "no-sync": _no_sync,
}
HOST: Final = tuple(_HOST)
