"""An optimizer that the training itself writes out, parameter by parameter."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gapless.catalogue import examples, optimizing, windowed
from gapless.catalogue.between import PYTHON
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator
from gapless.model.change import Change, Hosted, Omit
from gapless.model.edit import Where
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.study import Site

_GRADIENT: Final = "torch::autograd::AccumulateGrad"  # once for each parameter
_BACKWARD: Final = "autograd::engine"
_WRITES: Final = ("add_", "sub_", "addcdiv_", "copy_", "lerp_")  # parameters, of an update
_BESIDE: Final = ("mul_", "addcmul_", "zero_")  # momenta, gradients
_COPYING: Final = ("aten::_to_copy", "aten::clone")  # each copies into a new tensor
_ADDED: Final = "add_"  # what a backward pass does to gradients that are there, too
_FEW: Final = 10  # parameters
_NEARLY: Final = 0.9
_LEAST: Final = 0.01  # of the step
# Of Python between such calls. Lists saved 0.45 to 0.72 of a loop's time (torch 2.13 on a CPU, 40
# to 400 tensors, two or four operators each), of which windows show a half as Python, or more.
_GOES: Final = Interval(0.5, 0.8, 1.0)
_KEPT: Final = 1 / 30  # of launches: a kernel for lists takes so many tensors at the least


def _called(name: str, many: int, ns: int = 200_000) -> Site:
    return Site(name, "train.py", 8, "update", ns * 10, many * 10)


def _between(ms: float, function: str = "update") -> Site:
    return Site(PYTHON, "train.py", 8, function, round(ms * 1e7), 1)


@rule(
    "G216",
    "optimizer-by-hand",
    since="0.1",
    figures=[
        Figure(
            "p.data.add_(velocity, alpha=-lr), for each p",
            "`update` goes through 122 parameters one by one in each step, with 3 operators in "
            "place for each: Python between these takes 1.0 ms of each 7.0 ms step.",
            stated(
                examples.cpu(),
                {"busy.math": 5, PYTHON: 2},
                operator(_GRADIENT, calls=122, host_ms=0.3),
                _called("aten::mul_", 122),
                _called("aten::add_", 244),
                _between(1),
                _between(1, "main"),
            ),
        ),
        Figure(
            "The same on a GPU, where each is a launch",
            "`update` goes through 122 parameters one by one in each step, with 1 operator in "
            "place for each: Python between these takes 1.0 ms of each 7.0 ms step.",
            stated(
                examples.gpu(),
                {"busy.tc_math": 5, PYTHON: 2},
                operator(_GRADIENT, calls=122, host_ms=0.3, device_ms=0),
                operator("aten::add_", calls=122, host_ms=0.5, device_ms=0.2),
                _called("aten::add_", 122),
                _between(1),
                _between(1, "main"),
            ),
        ),
        Figure(
            "Gradients that a backward pass adds up: one addition each",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 5, PYTHON: 2},
                operator(_GRADIENT, calls=122, host_ms=0.3),
                _called("autograd::engine::evaluate_function: X", 122),
                _called("aten::add_", 122),
                _between(2),
            ),
        ),
        Figure(
            "An optimizer of torch's, and an average beside it",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 5, PYTHON: 2},
                operator("Optimizer.step#SGD.step", calls=1, host_ms=1),
                operator(_GRADIENT, calls=122, host_ms=0.3),
                _called("aten::mul_", 122),
                _called("aten::add_", 122),
                _between(2),
            ),
        ),
        Figure(
            "All at once, by torch._foreach_add_",
            None,
            stated(
                examples.cpu(),
                {"busy.math": 5, PYTHON: 2},
                operator(_GRADIENT, calls=122, host_ms=0.3),
                _called("aten::_foreach_add_", 1),
                _called("aten::add_", 122),
                _between(2),
            ),
        ),
    ],
)
def optimizer_by_hand(seen: Seen) -> Loss | None:
    """Recognise an update of the parameters that the training writes out as a loop in Python.

    ## Why it costs time
    Some operators for each parameter, each of them called from Python: microseconds, however few
    numbers a parameter has, and on a device a launch each. ``torch._foreach_add_`` and its
    relatives take lists of all parameters, as the optimizers of ``torch.optim`` do.

    ## How it is measured
    By a function of the user's that changes as many tensors in place as the backward pass stores
    gradients (``add_``, ``sub_``, ``addcdiv_``, ``lerp_`` or ``copy_``), where no optimizer of
    torch steps, and no list is given to torch; what a backward pass itself adds up is taken off. It
    is Python between the operators of that function, 50 to 100 % of which goes. On a CPU that is
    what lists are worth at the most: torch goes through them there. On a device launches go, too.
    """
    step, found = seen.step_ns, _update(seen)
    if found is None or not step:
        return None
    between = found.python * seen.per_step(PYTHON)
    if between < _LEAST * step:
        return None
    each = windowed.times(round(found.calls / found.parameters))
    operators = "operator" if each == "1" else "operators"
    return optimizer_by_hand.loss(
        f"`{found.where.function}` goes through {windowed.times(found.parameters)} parameters one "
        f"by one in each step, with {each} {operators} in place for each: Python between these "
        f"takes {windowed.of_step(seen, between)}.",
        *_changes(seen, found),
        where=found.where,
        evidence=(
            Measure("parameters with a gradient", found.parameters, ""),
            Measure("operators in place, a step", found.calls, ""),
            Measure("Python between them, a step", between, "ns"),
        ),
        no_remedy=(
            "give lists of all parameters to torch._foreach_mul_, torch._foreach_add_ and their "
            "relatives; or take the optimizer of torch.optim that does the same"
        ),
        inferred=True,
    )


@dataclass(frozen=True)
class _Update:
    """A function that updates parameters: its operators of a step, its share of all Python."""

    where: Where
    parameters: float
    calls: float
    names: dict[str, float]  # calls of a step
    python: float


def _update(seen: Seen) -> _Update | None:
    """Give the function that updates all parameters; ``None``: there is none."""
    many = windowed.calls(seen, _GRADIENT).count
    if many < _FEW or windowed.calls(seen, optimizing.STEP).count:
        return None
    steps = windowed.steps(seen)
    for where, calls in _functions(seen, steps).items():
        if any("_foreach_" in name for name in calls):
            continue
        names = _in_place(calls, many)
        if any(names.get(f"aten::{name}", 0) >= _NEARLY * many for name in _WRITES):
            part = sum(names.values()) / _operators(calls) if _derives(calls) else 1.0
            return _Update(
                where, many, sum(names.values()), names, min(1.0, part) * _python(seen, where)
            )
    return None


def _functions(seen: Seen, steps: int) -> dict[Where, Counter[str]]:
    """Give what functions call in a step, by name."""
    found: dict[Where, Counter[str]] = {}
    for one in seen.study.sites:
        calls = found.setdefault(Where(one.file, one.line, one.function), Counter())
        calls[one.name] += one.calls / steps  # pyright: ignore[reportArgumentType]
    return found


def _in_place(calls: Counter[str], many: float) -> dict[str, float]:
    """Give the operators in place that are called for each parameter, without a backward pass's."""
    found = {f"aten::{name}": float(calls[f"aten::{name}"]) for name in (*_WRITES, *_BESIDE)}
    found["aten::copy_"] -= sum(calls[name] for name in _COPYING)
    if _derives(calls):
        found[f"aten::{_ADDED}"] -= many
    return {name: count for name, count in found.items() if count >= _NEARLY * many}


def _derives(calls: Counter[str]) -> bool:
    """Tell whether a function makes the backward pass as well: then not all its Python is this."""
    return any(name.startswith(_BACKWARD) for name in calls)


def _operators(calls: Counter[str]) -> float:
    return sum(count for name, count in calls.items() if name.startswith("aten::")) or 1.0


def _python(seen: Seen, where: Where) -> float:
    """Give the share of all Python between operators that lies in a function."""
    every = [one for one in seen.study.sites if one.name == PYTHON]
    mine = [one for one in every if Where(one.file, one.line, one.function) == where]
    whole = sum(one.ns for one in every)
    return sum(one.ns for one in mine) / whole if whole else 0.0


def _changes(seen: Seen, found: _Update) -> tuple[Change, ...]:
    """Give what lists change: Python goes, and on a device most of the launches."""
    ends = (1 - found.python * part for part in (_GOES.high, _GOES.mid, _GOES.low))
    python = Hosted((PYTHON,), Interval(*ends))
    if not seen.on_device:
        return (python,)
    return (
        python,
        *(
            Omit((name,), keep=1 - (1 - _KEPT) * min(1.0, count / windowed.calls(seen, name).count))
            for name, count in found.names.items()
            if windowed.calls(seen, name).count
        ),
    )
