"""An optimizer that the training implements itself, parameter by parameter."""

from collections import Counter
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.between_operators import PYTHON
from gapless.model.change import Change, HostChange, Omit
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_GRADIENT: Final = "torch::autograd::AccumulateGrad"  # once for each parameter
_BACKWARD: Final = "autograd::engine"
_UPDATE_CALLS: Final = ("add_", "sub_", "addcdiv_", "copy_", "lerp_")  # on parameters, of an update
_STATE_CALLS: Final = ("mul_", "addcmul_", "zero_")  # on momenta, gradients
_COPY_CALLS: Final = ("aten::_to_copy", "aten::clone")  # each copies into a new tensor
_SUM_CALL: Final = "add_"  # also what a backward pass does to existing gradients
_MIN_PARAMETERS: Final = 10  # parameters
_MIN_TENSOR_SHARE: Final = 0.9
_MIN_STEP_SHARE: Final = 0.01  # of the step
# Share of the Python between such calls. Lists saved 0.45 to 0.72 of a loop's time (torch 2.13 on a
# CPU, 40 to 400 tensors, two or four operators each), of which windows show half or more as Python.
_REMOVED_SHARE: Final = Estimate(0.5, 0.8, 1.0)
_KEPT_LAUNCHES: Final = 1 / 30  # of launches: a kernel for lists takes at least 30 tensors


@rule(
    "G216",
    "optimizer-by-hand",
    figures="""
    call_site(name, calls, ns=200_000) = Site(name, "train.py", 8, "update", ns * 10, calls * 10)
    python_site(ms, function="update") = Site(PYTHON, "train.py", 8, function, round(ms *
      1e7), 1)
    # p.data.add_(velocity, alpha=-lr), for each p
    > `update` goes through 122 parameters one by one in each step, with 3 operators in place for
      each: Python between these takes 1.0 ms of each 7.0 ms step.
    cpu()
    busy.math 5, idle.host.python 2
    operator(_GRADIENT, calls=122, host_ms=0.3), call_site("aten::mul_", 122)
    call_site("aten::add_", 244), python_site(1), python_site(1, "main")
    # The same on a GPU, where each is a launch
    > `update` goes through 122 parameters one by one in each step, with 1 operator in place for
      each: Python between these takes 1.0 ms of each 7.0 ms step.
    gpu()
    busy.tc_math 5, idle.host.python 2
    operator(_GRADIENT, calls=122, host_ms=0.3, device_ms=0)
    operator("aten::add_", calls=122, host_ms=0.5, device_ms=0.2), call_site("aten::add_", 122)
    python_site(1), python_site(1, "main")
    # Gradients that a backward pass adds up: one addition each
    cpu()
    busy.math 5, idle.host.python 2
    operator(_GRADIENT, calls=122, host_ms=0.3)
    call_site("autograd::engine::evaluate_function: X", 122), call_site("aten::add_", 122)
    python_site(2)
    # An optimizer of torch, and an average beside it
    cpu()
    busy.math 5, idle.host.python 2
    operator("Optimizer.step#SGD.step", calls=1, host_ms=1)
    operator(_GRADIENT, calls=122, host_ms=0.3), call_site("aten::mul_", 122)
    call_site("aten::add_", 122), python_site(2)
    # All at once, by torch._foreach_add_
    cpu()
    busy.math 5, idle.host.python 2
    operator(_GRADIENT, calls=122, host_ms=0.3), call_site("aten::_foreach_add_", 1)
    call_site("aten::add_", 122), python_site(2)
    """,
)
def optimizer_by_hand(evidence: Evidence) -> Detection | None:
    """Recognise an update of the parameters that is written as a loop in Python.

    ## Why it costs time
    Some operators for each parameter, each called from Python: microseconds, however few numbers a
    parameter has, and on a device a launch each. ``torch._foreach_add_`` and its
    relatives take lists of all parameters, as the optimizers of ``torch.optim`` do.

    ## How it is measured
    By a function of the user's that changes as many tensors in place as the backward pass stores
    gradients (``add_``, ``sub_``, ``addcdiv_``, ``lerp_`` or ``copy_``), where no optimizer of
    torch steps, and no list is given to torch; what a backward pass itself accumulates is
    subtracted. The cost is the Python between the operators of that function, 50 to 100 % of which
    is saved. On a CPU lists can save no more: torch loops over them there. On a device launches are
    saved, too.
    """
    step_ns, update = evidence.step_ns, _find_update(evidence)
    if update is None or not step_ns:
        return None
    python_ns = update.python_share * evidence.per_step(PYTHON)
    if python_ns < _MIN_STEP_SHARE * step_ns:
        return None
    per_parameter = windows.format_count(round(update.calls / update.parameters))
    noun = "operator" if per_parameter == "1" else "operators"
    return optimizer_by_hand.detection(
        f"`{update.location.function}` goes through {windows.format_count(update.parameters)} "
        f"parameters one by one in each step, with {per_parameter} {noun} in place for each: "
        f"Python between these takes {windows.format_step_part(evidence, python_ns)}.",
        *_update_changes(evidence, update),
        location=update.location,
        measures=(
            Measure("parameters with a gradient", update.parameters, ""),
            Measure("operators in place, a step", update.calls, ""),
            Measure("Python between them, a step", python_ns, "ns"),
        ),
        no_remedy=(
            "give lists of all parameters to torch._foreach_mul_, torch._foreach_add_ and their "
            "relatives; or take the optimizer of torch.optim that does the same"
        ),
        inferred=True,
    )


class _ParameterUpdate(Struct, frozen=True):
    """A function that updates parameters: its operators in a step, its share of all Python."""

    location: Location
    parameters: float
    calls: float
    calls_by_name: dict[str, float]  # calls of a step
    python_share: float


def _find_update(evidence: Evidence) -> _ParameterUpdate | None:
    """Return the function that updates all parameters; ``None``: there is none."""
    n_parameters = windows.sum_calls(evidence, _GRADIENT).count
    if n_parameters < _MIN_PARAMETERS or windows.sum_calls(evidence, optimizer_steps.STEP).count:
        return None
    n_steps = windows.count_steps(evidence)
    for location, calls in _calls_by_function(evidence, n_steps).items():
        if any("_foreach_" in name for name in calls):
            continue
        calls_by_name = _in_place_calls(calls, n_parameters)
        if any(
            calls_by_name.get(f"aten::{name}", 0) >= _MIN_TENSOR_SHARE * n_parameters
            for name in _UPDATE_CALLS
        ):
            share = (
                sum(calls_by_name.values()) / _count_operators(calls)
                if _has_backward(calls)
                else 1.0
            )
            return _ParameterUpdate(
                location,
                n_parameters,
                sum(calls_by_name.values()),
                calls_by_name,
                min(1.0, share) * _python_share(evidence, location),
            )
    return None


def _calls_by_function(evidence: Evidence, n_steps: int) -> dict[Location, Counter[str]]:
    """Return the calls of functions in a step, by operator name."""
    functions: dict[Location, Counter[str]] = {}
    for site in evidence.study.sites:
        calls = functions.setdefault(Location(site.file, site.line, site.function), Counter())
        calls[site.name] += site.calls / n_steps  # pyright: ignore[reportArgumentType]
    return functions


def _in_place_calls(calls: Counter[str], n_parameters: float) -> dict[str, float]:
    """Return the in-place operators called for each parameter, without those of a backward pass."""
    counts = {
        f"aten::{name}": float(calls[f"aten::{name}"]) for name in (*_UPDATE_CALLS, *_STATE_CALLS)
    }
    counts["aten::copy_"] -= sum(calls[name] for name in _COPY_CALLS)
    if _has_backward(calls):
        counts[f"aten::{_SUM_CALL}"] -= n_parameters
    return {
        name: count for name, count in counts.items() if count >= _MIN_TENSOR_SHARE * n_parameters
    }


def _has_backward(calls: Counter[str]) -> bool:
    """Return whether a function also runs the backward pass: then not all its Python counts."""
    return any(name.startswith(_BACKWARD) for name in calls)


def _count_operators(calls: Counter[str]) -> float:
    return sum(count for name, count in calls.items() if name.startswith("aten::")) or 1.0


def _python_share(evidence: Evidence, location: Location) -> float:
    """Return the share of all Python between operators that lies in a function."""
    python_sites = [site for site in evidence.study.sites if site.name == PYTHON]
    own_sites = [
        site for site in python_sites if Location(site.file, site.line, site.function) == location
    ]
    total_ns = sum(site.ns for site in python_sites)
    return sum(site.ns for site in own_sites) / total_ns if total_ns else 0.0


def _update_changes(evidence: Evidence, update: _ParameterUpdate) -> tuple[Change, ...]:
    """Return what lists change: they save Python, and on a device most of the launches."""
    bounds = (
        1 - update.python_share * share
        for share in (_REMOVED_SHARE.high, _REMOVED_SHARE.mid, _REMOVED_SHARE.low)
    )
    python_change = HostChange((PYTHON,), Estimate(*bounds))
    if not evidence.on_device:
        return (python_change,)
    return (
        python_change,
        *(
            Omit(
                (name,),
                keep=1
                - (1 - _KEPT_LAUNCHES) * min(1.0, count / windows.sum_calls(evidence, name).count),
            )
            for name, count in update.calls_by_name.items()
            if windows.sum_calls(evidence, name).count
        ),
    )
