"""How an optimizer makes its step, and what would change if it did so in another way."""

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal

from gapless.catalogue.declare.selectors import public_name
from gapless.catalogue.queries import windows
from gapless.model.change import Change, HostChange, Merge
from gapless.model.edit import Location, Proposal, SetArgument
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Optimizer
from gapless.model.tables import Operator

STEP: Final = "Optimizer.step#*"
FUSED: Final = ("aten::_fused_adam*", "aten::_fused_sgd*", "aten::_fused_adagrad*")
FOREACH: Final = ("aten::_foreach_add_", "aten::_foreach_addc*")  # not called by clipping
_SPARSE: Final = ("aten::*sparse_coo*", "aten::*sparse_backward*", "aten::*coalesce*")
Way = Literal["fused", "foreach", "loop"]
_CALL_OF_GROUP: Final[Mapping[Way | None, tuple[str, ...]]] = {  # once or twice for each group
    "fused": FUSED,
    "foreach": FOREACH[:1],
}
_MIN_GROUPS: Final = 8
_MIN_GROUP_SHARE: Final = 0.75  # of the parameters
_JOINED_FACTOR: Final = Estimate(0.1, 0.4, 1.0)  # of kernels so small that they leave most empty

# Tensors of a parameter's size that an element-wise step reads or writes: operation by operation,
# and in one kernel (counted in torch 2.11's optimizers).
_PASSES: Final = {
    "AdamW": (20, 7),
    "Adam": (18, 7),
    "SGD": (8, 5),
    "SGD without momentum": (3, 3),
    "Adagrad": (12, 5),
}
_OPERATIONS: Final = {  # of a step
    "AdamW": 12,
    "Adam": 11,
    "SGD": 3,
    "SGD without momentum": 1,
    "Adagrad": 6,
}
_DEFAULT_PASSES: Final = (14, 6)
_DEFAULT_OPERATIONS: Final = 8  # of optimizers that are not listed
_SHORTEST_NS: Final = 1_500.0  # an empty kernel, on a data-centre GPU
_TENSORS_PER_KERNEL: Final = 30  # that a multi-tensor kernel takes at least
_ELEMENTS_PER_KERNEL: Final = 320 * 65_536  # that it takes at least: blocks of chunks
# Of the host's time in a step: gathering parameters and their states remains, in Python.
_HOST_SHARE: Final[Mapping[tuple[Way | None, Way], float]] = {
    ("foreach", "fused"): 0.55,
    ("loop", "fused"): 0.1,
    ("loop", "foreach"): 0.2,
}
# On a CPU (torch 2.13, 16 to 600 tensors of two numbers) an operation in a loop takes 3.3 to
# 3.9 µs, the rest moves memory. Fused, 0.06 to 0.18 of AdamW's calls remain, 0.4 to 0.7 of SGD's.
_CALL_NS: Final = 3_500.0
# With foreach torch itself loops there, and temporaries of all parameters leave the caches between
# two operations: 0.5 to 0.7 of the calls' time remain (tensors of 16 numbers), moving memory takes
# 1 (SGD) to 2.3 times as long (tensors of 65,536).
_FOREACH_CALLS, _FOREACH_MEMORY = Estimate(0.45, 0.6, 0.8), Estimate(1.0, 1.7, 2.3)
_GATHER_SHARE, _CALL_SHARE, _MAX_CALL_SHARE = 0.05, 1.2, 0.7
_OPTIMIZER_LEAVES: Final = ("idle.host.optimizer", "busy.optimizer")
_MOMENTUM_CALLS: Final = ("aten::mul_", "aten::_foreach_mul_")


def find_way(evidence: Evidence) -> Way | None:
    """Return how the optimizers of a run step; ``None`` if that was not observed.

    If some are fused: how the others step.
    """
    if windows.sum_calls(evidence, *FUSED).count and not _find_unfused(evidence):
        return "fused"
    if windows.sum_calls(evidence, *FOREACH).count:
        return "foreach"
    return "loop" if windows.sum_calls(evidence, STEP).count else None


def _find_unfused(evidence: Evidence) -> tuple[Optimizer, ...]:
    """Return the optimizers that are not fused, where others are; none if all are alike."""
    optimizers = [optimizer for optimizer in evidence.facts.optimizers if optimizer.calls]
    unfused = tuple(optimizer for optimizer in optimizers if not optimizer.fused)
    is_mixed = windows.sum_calls(evidence, *FUSED).count < windows.sum_calls(evidence, STEP).count
    return unfused if is_mixed and len(unfused) < len(optimizers) else ()


def treats_singly(evidence: Evidence) -> bool:
    """Return whether groups of hardly more than one parameter keep a step from treating many."""
    way, n_optimizers = find_way(evidence), len(evidence.facts.optimizers)
    if way not in _CALL_OF_GROUP or not n_optimizers or not evidence.on_device:
        return False
    n_tensors = (count_tensors(evidence) or 0) / n_optimizers
    n_calls, n_steps = (
        windows.sum_calls(evidence, *names).count for names in (_CALL_OF_GROUP[way], (STEP,))
    )
    n_groups = n_calls / n_steps if n_steps else 0.0
    return n_groups >= max(_MIN_GROUPS, _MIN_GROUP_SHARE * n_tensors)


def join_groups(evidence: Evidence) -> Change:
    """Return what changes if an optimizer has one group; gathering parameters still takes time."""
    rows = windows.select_operators(evidence, STEP)
    kept_share = _HOST_SHARE["loop", "foreach"] * _mean_launches(evidence)
    return Merge(
        tuple(row.name for row in rows) or (STEP,),
        max(1, round(kept_share), 2 * _launches_per_pass(evidence, None)),
        _JOINED_FACTOR,
    )


def has_sparse_gradients(evidence: Evidence) -> bool:
    """Return whether gradients are sparse: torch adds these one by one, and never fuses them."""
    return windows.sum_calls(evidence, *_SPARSE).count > 0


def class_name(optimizer: Optimizer) -> str:
    """Return the short name of an optimizer's class: "AdamW"."""
    return optimizer.name.rpartition(".")[2]


def count_tensors(evidence: Evidence) -> int | None:
    """Count the parameters that the optimizers of a run hold; ``None`` if that is not known."""
    counts = [optimizer.tensors for optimizer in evidence.facts.optimizers if optimizer.tensors]
    return sum(counts) if counts else None


def find_optimizer_line(evidence: Evidence) -> Location | None:
    """Return the line of the optimizer with most parameters (of the unfused ones, if any)."""
    optimizers = _find_unfused(evidence) or evidence.facts.optimizers
    largest = max(optimizers, key=lambda optimizer: optimizer.tensors or 0, default=None)
    return None if largest is None else largest.location


def change_way(
    evidence: Evidence, new_way: Way, optimizer: Optimizer | None = None
) -> tuple[Change, ...]:
    """Return what changes if an optimizer (by default all) makes its steps in another way."""
    name = None if optimizer is None else class_name(optimizer)
    rows = windows.select_operators(
        evidence, STEP if name is None else f"Optimizer.step#{name}.step"
    )
    rows = rows or windows.select_operators(evidence, STEP)
    kind = _optimizer_kind(evidence, name or _class_of_rows(rows))
    if not evidence.on_device:
        remaining, share = _cpu_factor(evidence, new_way, kind), _share_of_all(evidence, optimizer)
        factor = (
            1 - share * (1 - bound) for bound in (remaining.low, remaining.mid, remaining.high)
        )
        return (HostChange(_OPTIMIZER_LEAVES, Estimate(*factor)),)
    names = tuple(row.name for row in rows) or (STEP,)
    launches = _launches_per_pass(evidence, optimizer) * (
        _OPERATIONS.get(kind, _DEFAULT_OPERATIONS) if new_way == "foreach" else 1
    )
    launches, device_factor = (
        max(launches, _remaining_launches(evidence, new_way)),
        _device_factor(evidence, new_way, kind),
    )
    if name is not None and (optimizer := _if_class_shared(evidence, optimizer)) is not None:
        # Frames are named by class alone: other classes keep their launches and their time.
        time_share, call_share = (
            _share_of_class(evidence, optimizer),
            _share_of_class(evidence, optimizer, weighted=False),
        )
        launches = round(call_share * launches + (1 - time_share) * _mean_launches(evidence))
        device_factor = Estimate(
            *(
                1 - time_share * (1 - bound)
                for bound in (device_factor.low, device_factor.mid, device_factor.high)
            )
        )
    return (Merge(names, max(1, launches), device_factor),)


def _if_class_shared(evidence: Evidence, optimizer: Optimizer | None) -> Optimizer | None:
    """Return an optimizer if others of its class are made at other lines, else ``None``."""
    optimizers = () if optimizer is None else evidence.facts.optimizers
    peers = (peer for peer in optimizers if optimizer and class_name(peer) == class_name(optimizer))
    return (
        optimizer
        if optimizer and any(peer.location != optimizer.location for peer in peers)
        else None
    )


def _share_of_class(evidence: Evidence, optimizer: Optimizer, *, weighted: bool = True) -> float:
    """Return an optimizer's share of the time of its class, by parameters, or else by calls.

    Optimizers made at one line count as one: a change of that line affects all of them.
    """
    optimizers = evidence.facts.optimizers
    peers = [peer for peer in optimizers if class_name(peer) == class_name(optimizer)]
    weights = [((peer.tensors or 1) if weighted else 1) * max(1, peer.calls) for peer in peers]
    pairs = zip(peers, weights, strict=True)
    return sum(weight for peer, weight in pairs if peer.location == optimizer.location) / (
        sum(weights) or 1
    )


def _share_of_all(evidence: Evidence, optimizer: Optimizer | None) -> float:
    """Return an optimizer's share of the time of all: by class as traced, then by parameters."""
    optimizers = evidence.facts.optimizers
    if len(optimizers) < 2:  # noqa: PLR2004 - a single one
        return 1.0
    if optimizer is None:
        weights = {peer.id: (peer.tensors or 1) * max(1, peer.calls) for peer in optimizers}
        return sum(weights[peer.id] for peer in _find_unfused(evidence) or optimizers) / sum(
            weights.values()
        )
    class_share = _share_of_class(evidence, optimizer)
    class_ns, total_ns = (
        _host_ns(evidence, f"Optimizer.step#{class_name(optimizer)}.step"),
        _host_ns(evidence, STEP),
    )
    return class_share * class_ns / total_ns if class_ns else class_share


def _host_ns(evidence: Evidence, pattern: str) -> int:
    return sum(row.host_total_ns for row in windows.select_operators(evidence, pattern))


def _remaining_launches(evidence: Evidence, new_way: Way) -> int:
    """Return the launches that remain: the same share as of the host's time."""
    return (
        round(_HOST_SHARE.get((find_way(evidence), new_way), 1.0) * _mean_launches(evidence)) or 1
    )


def _mean_launches(evidence: Evidence) -> float:
    """Return the mean number of kernels that a call of an optimizer's step launches."""
    n_steps = windows.sum_calls(evidence, STEP).count
    return windows.sum_kernels(evidence, "busy.optimizer").count / n_steps if n_steps else 0.0


def _optimizer_kind(evidence: Evidence, name: str) -> str:
    """Return the kind of an optimizer; only SGD with momentum scales a tensor per parameter."""
    if name != "SGD":
        return name
    n_scaled = windows.sum_calls(evidence, *_MOMENTUM_CALLS).count
    min_calls = (count_tensors(evidence) or 1) if find_way(evidence) == "loop" else 1
    return name if n_scaled >= min_calls else "SGD without momentum"


def _cpu_factor(evidence: Evidence, new_way: Way, kind: str) -> Estimate:
    """Return the time of a step on a CPU in the new way, as a factor.

    A loop costs its calls and its memory traffic. Fused, there is one call, with less traffic;
    with foreach fewer calls come from Python, and caches hold less.
    """
    total_ns, operations = (
        windows.sum_leaves(evidence, *_OPTIMIZER_LEAVES),
        _OPERATIONS.get(kind, _DEFAULT_OPERATIONS),
    )
    calls_ns = min(total_ns, (count_tensors(evidence) or 1) * operations * _CALL_NS)
    if new_way != "fused":
        return _foreach_factor(calls_ns / total_ns if total_ns else 1.0)
    loop_passes, fused_passes = _PASSES.get(kind, _DEFAULT_PASSES)
    call_share = min(_MAX_CALL_SHARE, _GATHER_SHARE + _CALL_SHARE / operations)
    factor = (
        ((total_ns - calls_ns) * fused_passes / loop_passes + calls_ns * call_share) / total_ns
        if total_ns
        else 1.0
    )
    return Estimate(0.8 * factor, min(1.0, factor + 0.05), min(1.05, factor + 0.4))


def _foreach_factor(call_share: float) -> Estimate:
    """Return the time of a step with foreach on a CPU, as a factor of the loop's."""
    bounds = zip(
        (_FOREACH_CALLS.low, _FOREACH_CALLS.mid, _FOREACH_CALLS.high),
        (_FOREACH_MEMORY.low, _FOREACH_MEMORY.mid, _FOREACH_MEMORY.high),
        strict=True,
    )
    return Estimate(*(call_share * calls + (1 - call_share) * memory for calls, memory in bounds))


def _class_of_rows(rows: tuple[Operator, ...]) -> str:
    """Return the class from a range: "Optimizer.step#AdamW.step"."""
    return rows[0].name.partition("#")[2].removesuffix(".step") if rows else ""


def _launches_per_pass(evidence: Evidence, optimizer: Optimizer | None) -> int:
    """Return how many kernels one pass over all parameters takes."""
    n_tensors = (
        (optimizer.tensors if optimizer is not None else None)
        or count_tensors(evidence)
        or _TENSORS_PER_KERNEL
    )
    models = evidence.facts.models
    n_elements = sum(model.parameters or 0 for model in models)
    return max(1, ceil(n_tensors / _TENSORS_PER_KERNEL), ceil(n_elements / _ELEMENTS_PER_KERNEL))


def _device_factor(evidence: Evidence, new_way: Way, kind: str) -> Estimate:
    """Return the device's time in the new way, as a factor.

    Kernels hardly longer than an empty one are nearly all saved when they become few. The rest
    moves memory: as often as before, or (fused) only as often as it must.
    """
    current_way = find_way(evidence)
    memory_share = 1.0
    if current_way == "loop":
        mean_ns = windows.sum_kernels(evidence, "busy.optimizer").mean_ns
        memory_share = max(0.0, 1 - _SHORTEST_NS / mean_ns) if mean_ns else 1.0
    pass_ratio = 1.0
    if new_way == "fused":
        loop_passes, fused_passes = _PASSES.get(kind, _DEFAULT_PASSES)
        pass_ratio = fused_passes / loop_passes
    factor = memory_share * pass_ratio
    return Estimate(0.75 * factor, factor, min(1.0, 1.4 * factor + 0.05))


def find_proposed_optimizer(evidence: Evidence, proposal: Proposal) -> Optimizer | None:
    """Return the optimizer that a proposal changes, by its line and class."""
    optimizers = evidence.facts.optimizers
    at_line = [optimizer for optimizer in optimizers if optimizer.location == proposal.location]
    targets = {edit.target for edit in proposal.edits if isinstance(edit, SetArgument)}
    of_class = [optimizer for optimizer in at_line if public_name(optimizer.name) in targets]
    return next(iter(of_class or at_line), None)
