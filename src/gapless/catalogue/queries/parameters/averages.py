"""Moving averages that make new tensors: ``d * average + (1 - d) * weight`` per parameter."""

from collections.abc import Mapping
from typing import Final

from gapless.catalogue.queries import windows
from gapless.model.edit import Location
from gapless.model.evidence import Evidence

MUL, ADD, COPY = "aten::mul", "aten::add", "aten::copy_"
_COPYING_CALLS: Final = ("aten::_to_copy", "aten::clone")  # each copies once, into a new tensor
_DETACHING_CALLS: Final = ("aten::detach", COPY)
_MIN_COVERAGE: Final = 0.9
_MAX_COVERAGE: Final = 3  # calls per parameter: batch norm averages three tensors for two
_MULS_PER_BACKWARD: Final = 3  # multiplications for each MulBackward0 node
# Allowed deviation from two multiplications for each addition.
_MAX_DEVIATION: Final = 0.1


def covers_tensors_once(calls: float, n_tensors: int) -> bool:
    """Return whether so many calls cover all tensors of a model once."""
    return _MIN_COVERAGE * n_tensors <= calls <= _MAX_COVERAGE * n_tensors


def find_averaging(evidence: Evidence, n_parameters: int) -> tuple[Location | None, ...]:
    """Return where each of so many parameters is averaged; ``None``: not known; empty: nowhere.

    It is the function that multiplies and adds for each parameter, and no more often. Without
    stacks the function is not known; then as many results must be copied into existing tensors,
    which only a loop over a model's tensors does.
    """
    if not _multiplies_and_adds(evidence, n_parameters):
        return ()
    calls_by_function: dict[Location, dict[str, int]] = {}
    for site in evidence.study.sites:
        calls_by_function.setdefault(Location(site.file, site.line, site.function), {})[
            site.name
        ] = site.calls
    if not calls_by_function:
        return (None,) if covers_tensors_once(_count_copies(evidence), n_parameters) else ()
    max_rounds = _MAX_COVERAGE * windows.count_steps(evidence)
    return tuple(
        location
        for location, calls in calls_by_function.items()
        if _is_average(calls, n_parameters) and calls.get(ADD, 0) <= max_rounds * n_parameters
    )[:1]


def _multiplies_and_adds(evidence: Evidence, n_parameters: int) -> bool:
    """Return whether there are two multiplications and an addition for each parameter.

    Multiplications that a backward pass differentiates are left out: they belong to a model.
    """
    counts = windows.sum_calls(evidence, MUL).count, windows.sum_calls(evidence, ADD).count
    backward_count = windows.sum_calls(evidence, "MulBackward0").count
    multiplies = counts[0] - _MULS_PER_BACKWARD * backward_count >= _MIN_COVERAGE * 2 * n_parameters
    return multiplies and counts[1] >= _MIN_COVERAGE * n_parameters


def _count_copies(evidence: Evidence) -> float:
    """Count copies into existing tensors; copies into new ones are made within other calls."""
    nested_count = windows.sum_calls(evidence, *_COPYING_CALLS).count
    return windows.sum_calls(evidence, COPY).count - nested_count


def _is_average(calls: Mapping[str, int], n_parameters: int) -> bool:
    """Return whether calls of a function in whole steps are those of an average alone.

    Averages of buffers (batch norm) come on top: only the ratio of the calls tells. A function that
    computes derivatives is none, unless it also detaches as many tensors, as ``state_dict()`` does:
    a loop that both trains and averages.
    """
    mul_rounds, add_rounds = (
        calls.get(MUL, 0) / (2 * n_parameters),
        calls.get(ADD, 0) / n_parameters,
    )
    has_autograd = any(name.startswith("autograd::") for name in calls)
    detach_count = max(calls.get(name, 0) for name in _DETACHING_CALLS)
    has_autograd = has_autograd and detach_count < _MIN_COVERAGE * calls.get(ADD, 0)
    return (
        add_rounds >= _MIN_COVERAGE
        and not has_autograd
        and abs(mul_rounds / add_rounds - 1) <= _MAX_DEVIATION
    )
