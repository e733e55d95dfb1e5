"""How an optimizer makes its step, and what another way of making it would change."""

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal

from gapless.catalogue import windowed
from gapless.model.change import Change, Hosted, Merge
from gapless.model.edit import Where
from gapless.model.facts import Optimizer
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.tables import Operator

STEP: Final = "Optimizer.step#*"
FUSED: Final = ("aten::_fused_adam*", "aten::_fused_sgd*", "aten::_fused_adagrad*")
FOREACH: Final = ("aten::_foreach_add_", "aten::_foreach_addc*")  # clipping calls none of these
_SPARSE: Final = ("aten::*sparse_coo*", "aten::*sparse_backward*", "aten::*coalesce*")
Way = Literal["fused", "foreach", "loop"]

# Tensors of the size of a parameter that an element-wise step reads or writes: operation by
# operation, and in one kernel (counted in torch 2.11's optimizers).
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
_USUAL: Final = (14, 6)
_MANY: Final = 8  # operations of what is not listed
_SHORTEST_NS: Final = 1_500.0  # a kernel that does nothing, on a data-centre GPU
_TENSORS: Final = 30  # a multi-tensor kernel takes so many at the least
_ELEMENTS: Final = 320 * 65_536  # and so many numbers: its blocks, of chunks
# Of the host's time in a step: what gathers parameters and their states stays, in Python.
_HOST_LEFT: Final[Mapping[tuple[Way | None, Way], float]] = {
    ("foreach", "fused"): 0.55,
    ("loop", "fused"): 0.1,
    ("loop", "foreach"): 0.2,
}
# On a CPU (torch 2.13, 16 to 600 tensors of two numbers): an operation of a loop takes the host 3.3
# to 3.9 µs, the rest moves memory. Fused, 0.06 to 0.18 of AdamW's calls stay, 0.4 to 0.7 of SGD's.
_CALL_NS: Final = 3_500.0
_LOOPED: Final = Interval(0.5, 0.8, 1.0)  # of a loop's time there, if torch itself goes through it
_GATHERED, _CALLED, _MOST_CALLED = 0.05, 1.2, 0.7
_TIME: Final = ("idle.host.optimizer", "busy.optimizer")
_MOMENTUM: Final = ("aten::mul_", "aten::_foreach_mul_")


def way(seen: Seen) -> Way | None:
    """Tell how the optimizers of a run step; ``None`` where none was seen to, or not how.

    Where some are fused: how the others do.
    """
    if windowed.calls(seen, *FUSED).count and not _others(seen):
        return "fused"
    if windowed.calls(seen, *FOREACH).count:
        return "foreach"
    return "loop" if windowed.calls(seen, STEP).count else None


def _others(seen: Seen) -> tuple[Optimizer, ...]:
    """Give the optimizers that are not fused, beside some that are; none if all are alike."""
    every = [one for one in seen.facts.optimizers if one.calls] if seen.facts is not None else []
    rest = tuple(one for one in every if not one.fused)
    fewer = windowed.calls(seen, *FUSED).count < windowed.calls(seen, STEP).count
    return rest if fewer and len(rest) < len(every) else ()


def sparse(seen: Seen) -> bool:
    """Tell whether gradients are sparse: these torch adds one by one, and never fuses."""
    return windowed.calls(seen, *_SPARSE).count > 0


def of_class(one: Optimizer) -> str:
    """Give the name of an optimizer's class: "AdamW"."""
    return one.name.rpartition(".")[2]


def tensors(seen: Seen) -> int | None:
    """Count the parameters that optimizers of a run hold; ``None`` where that is not known."""
    known = [one.tensors for one in seen.facts.optimizers if one.tensors] if seen.facts else []
    return sum(known) if known else None


def place(seen: Seen) -> Where | None:
    """Give the line of the optimizer that has the most parameters: if some are fused, of others."""
    every = () if seen.facts is None else _others(seen) or seen.facts.optimizers
    first = max(every, key=lambda one: one.tensors or 0, default=None)
    return None if first is None else first.where


def faster(seen: Seen, new: Way, of: Optimizer | None = None) -> tuple[Change, ...]:
    """Give what changes if an optimizer (all, if not said) makes its steps in another way."""
    name = None if of is None else of_class(of)
    rows = windowed.operators(seen, STEP if name is None else f"Optimizer.step#{name}.step")
    rows = rows or windowed.operators(seen, STEP)
    kind = _kind(seen, name or _named(rows))
    if not seen.on_device:
        left, part = _on_cpu(seen, new, kind), _part(seen, of)
        factor = (1 - part * (1 - one) for one in (left.low, left.mid, left.high))
        return (Hosted(_TIME, Interval(*factor)),)
    names = tuple(one.name for one in rows) or (STEP,)
    launches = _launches(seen, of) * (_OPERATIONS.get(kind, _MANY) if new == "foreach" else 1)
    launches, device = max(launches, _still(seen, new)), _device(seen, new, kind)
    if name is not None and (of := _alone(seen, of)) is not None:
        # Frames are named by their class alone: those of others keep what they launch, and take.
        time, calls = _part_of_class(seen, of), _part_of_class(seen, of, weighted=False)
        launches = round(calls * launches + (1 - time) * _launched(seen))
        device = Interval(*(1 - time * (1 - one) for one in (device.low, device.mid, device.high)))
    return (Merge(names, max(1, launches), device),)


def _alone(seen: Seen, of: Optimizer | None) -> Optimizer | None:
    """Give an optimizer if others of its class are made in another line, else ``None``."""
    every = () if seen.facts is None or of is None else seen.facts.optimizers
    others = (one for one in every if of and of_class(one) == of_class(of))
    return of if of and any(one.where != of.where for one in others) else None


def _part_of_class(seen: Seen, of: Optimizer, *, weighted: bool = True) -> float:
    """Give the part of its class's time that is an optimizer's, by parameters; or of its calls.

    What is made in one line is one: a change of that line is of all.
    """
    every = () if seen.facts is None else seen.facts.optimizers
    alike = [one for one in every if of_class(one) == of_class(of)]
    weights = [((one.tensors or 1) if weighted else 1) * max(1, one.calls) for one in alike]
    pairs = zip(alike, weights, strict=True)
    return sum(many for one, many in pairs if one.where == of.where) / (sum(weights) or 1)


def _part(seen: Seen, of: Optimizer | None) -> float:
    """Give an optimizer's part of the time of all: its class's as traced, of that by parameters."""
    every = () if seen.facts is None else seen.facts.optimizers
    if len(every) < 2:  # noqa: PLR2004 - one has it all
        return 1.0
    if of is None:
        weights = {one.id: (one.tensors or 1) * max(1, one.calls) for one in every}
        return sum(weights[one.id] for one in _others(seen) or every) / sum(weights.values())
    mine = _part_of_class(seen, of)
    own, whole = _host_ns(seen, f"Optimizer.step#{of_class(of)}.step"), _host_ns(seen, STEP)
    return mine * own / whole if own else mine


def _host_ns(seen: Seen, pattern: str) -> int:
    return sum(one.host_total_ns for one in windowed.operators(seen, pattern))


def _still(seen: Seen, new: Way) -> int:
    """Give the launches whose share of all is that of the host's time which stays."""
    return round(_HOST_LEFT.get((way(seen), new), 1.0) * _launched(seen)) or 1


def _launched(seen: Seen) -> float:
    """Give how many kernels a call of an optimizer's step launches, mean."""
    steps = windowed.calls(seen, STEP).count
    return windowed.kernels(seen, "busy.optimizer").count / steps if steps else 0.0


def _kind(seen: Seen, name: str) -> str:
    """Tell SGD with momentum from SGD without: it scales each parameter's."""
    if name != "SGD":
        return name
    scaled = windowed.calls(seen, *_MOMENTUM).count
    least = (tensors(seen) or 1) if way(seen) == "loop" else 1
    return name if scaled >= least else "SGD without momentum"


def _on_cpu(seen: Seen, new: Way, kind: str) -> Interval:
    """Give the time of a step on a CPU in the new way, as a factor.

    A loop takes its calls, and what it moves. Fused there is one call for all, which moves less.
    """
    if new != "fused":
        return _LOOPED
    whole, operations = windowed.under(seen, *_TIME), _OPERATIONS.get(kind, _MANY)
    calls = min(whole, (tensors(seen) or 1) * operations * _CALL_NS)
    many, once = _PASSES.get(kind, _USUAL)
    stay = min(_MOST_CALLED, _GATHERED + _CALLED / operations)
    left = ((whole - calls) * once / many + calls * stay) / whole if whole else 1.0
    return Interval(0.8 * left, min(1.0, left + 0.05), min(1.05, left + 0.4))


def _named(rows: tuple[Operator, ...]) -> str:
    """Give the class from a range: "Optimizer.step#AdamW.step"."""
    return rows[0].name.partition("#")[2].removesuffix(".step") if rows else ""


def _launches(seen: Seen, of: Optimizer | None) -> int:
    """Give how many kernels go through all parameters once."""
    many = (of.tensors if of is not None else None) or tensors(seen) or _TENSORS
    models = () if seen.facts is None else seen.facts.models
    numbers = sum(one.parameters or 0 for one in models)
    return max(1, ceil(many / _TENSORS), ceil(numbers / _ELEMENTS))


def _device(seen: Seen, new: Way, kind: str) -> Interval:
    """Give the device's time in the new way, as a factor.

    Of kernels that are hardly longer than an empty one, nearly all goes where they become few.
    What is left moves memory: as often as before, or (fused) only as often as it must.
    """
    now = way(seen)
    moves = 1.0
    if now == "loop":
        mean = windowed.kernels(seen, "busy.optimizer").mean_ns
        moves = max(0.0, 1 - _SHORTEST_NS / mean) if mean else 1.0
    least = 1.0
    if new == "fused":
        many, once = _PASSES.get(kind, _USUAL)
        least = once / many
    factor = moves * least
    return Interval(0.75 * factor, factor, min(1.0, 1.4 * factor + 0.05))
