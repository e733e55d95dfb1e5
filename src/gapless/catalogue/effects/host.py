"""Effects of fixes for the host: optimizers, the collector, switches, how often DDP exchanges."""

from collections.abc import Callable, Mapping
from typing import Final

from gapless.catalogue.queries import optimizer_steps
from gapless.catalogue.rules.copies.blocking_launches import changes_without_waits
from gapless.catalogue.rules.host.anomaly_mode import changes_without_checks
from gapless.catalogue.rules.host.zeroed_gradients import changes_when_dropped
from gapless.catalogue.rules.ranks.needless_reductions import changes_with_no_sync
from gapless.model.change import Change, Drop, HostChange
from gapless.model.edit import Edit, Proposal, SetEnv, SetGlobal, Wrap
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Facts, Optimizer

Changes = tuple[Change, ...]
# torch finds that it cannot: that costs the host next to nothing.
_NO_EFFECT: Final[Changes] = (HostChange(("idle.host.optimizer",), Estimate(0.98, 1.0, 1.05)),)


def host_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what a fix changes on the host; ``None``: not known before it is tried."""
    if evidence.facts is None:
        return None
    try:
        return _EFFECTS_BY_FIX[proposal.fix](evidence, proposal, evidence.facts) or None
    except NotObservedError:
        return None


# ── Optimizers ──────────────────────────────────────────────────────────────────────────────────


def _change_fused(evidence: Evidence, proposal: Proposal, facts: Facts) -> Changes:
    optimizer = _find_optimizer(facts, proposal)
    is_predictable = optimizer_steps.find_way(
        evidence
    ) is not None and not optimizer_steps.has_sparse_gradients(evidence)
    return optimizer_steps.change_way(evidence, "fused", optimizer) if is_predictable else ()


def _change_foreach(evidence: Evidence, proposal: Proposal, facts: Facts) -> Changes:
    if optimizer_steps.find_way(evidence) != "loop":
        return ()
    if optimizer_steps.has_sparse_gradients(evidence):
        return _NO_EFFECT  # torch still takes them one by one
    return optimizer_steps.change_way(evidence, "foreach", _find_optimizer(facts, proposal))


def _find_optimizer(facts: Facts, proposal: Proposal) -> Optimizer | None:
    """Return the optimizer that a proposal changes, by its line and class."""
    line_optimizers = [
        optimizer for optimizer in facts.optimizers if optimizer.location == proposal.location
    ]
    class_optimizers = [
        optimizer
        for optimizer in line_optimizers
        if proposal.summary.startswith(optimizer_steps.class_name(optimizer) + " ")
    ]
    return next(iter(class_optimizers or line_optimizers), None)


def _change_zeroing(evidence: Evidence, _proposal: Proposal, _facts: Facts) -> Changes:
    return changes_when_dropped(evidence)


# ── The collector ───────────────────────────────────────────────────────────────────────────────


def _change_collector(_evidence: Evidence, proposal: Proposal, facts: Facts) -> Changes:
    count, period = facts.calls.get("collections"), _find_period(proposal)
    if not count or not facts.world.steps or period is None:
        return ()
    return (Drop(("idle.gc",), keep=min(1.0, facts.world.steps / count / period)),)


def _find_period(proposal: Proposal) -> int | None:
    periods = [edit.options.get("every") for edit in proposal.edits if isinstance(edit, Wrap)]
    return next((period for period in periods if isinstance(period, int) and period > 0), None)


# ── Switches, exchanges ─────────────────────────────────────────────────────────────────────────


def _change_debug(evidence: Evidence, proposal: Proposal, _facts: Facts) -> Changes:
    return tuple(change for edit in proposal.edits for change in _switch_changes(evidence, edit))


def _switch_changes(evidence: Evidence, edit: Edit) -> Changes:
    match edit:
        case SetEnv():
            return changes_without_waits(evidence)
        case SetGlobal():
            return changes_without_checks(evidence)
        case _:
            return ()


def _change_exchanges(evidence: Evidence, proposal: Proposal, _facts: Facts) -> Changes:
    period = _find_period(proposal)
    if period is None:
        return ()
    return changes_with_no_sync(evidence, period)


_EFFECTS_BY_FIX: Final[Mapping[str, Callable[[Evidence, Proposal, Facts], Changes]]] = {
    "fused": _change_fused,
    "foreach": _change_foreach,
    "set-to-none": _change_zeroing,
    "collector": _change_collector,
    "debug-off": _change_debug,
    "no-sync": _change_exchanges,
}
HOST_FIXES: Final = tuple(_EFFECTS_BY_FIX)
