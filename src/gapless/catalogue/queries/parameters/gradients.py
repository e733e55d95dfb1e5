"""Gradients that are computed and that nothing uses: whose, and how many of all."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.products import batch_of
from gapless.model.edit import Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.study import UPDATES
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of

ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
_INPUTS: Final = 4  # inputs with gradients (physics, attacks) are one or two
_MIN_NEEDLESS_SHARE: Final = 0.1  # of all
_MAX_STEP_CALLS: Final = 1.5  # calls a step: more mean several optimizers, or steps
_MIN_TURNS: Final = 2  # optimizers that step in turn
_REMEDY: Final = (
    "run the model that is not trained under `with torch.no_grad():`; where gradients must pass "
    "through it, call requires_grad_(False) on it; or give its parameters to the optimizer, if "
    "they were forgotten"
)
_DETACH: Final = (
    "detach what one model makes before the other is trained on it (`fake.detach()`), or make it "
    "under `with torch.no_grad():`"
)


class NeedlessGradients(Struct, frozen=True):
    """Gradients that nothing uses: their share of all, by number and by size (None: not known)."""

    count: float
    count_share: float
    size_share: float | None
    location: Location | None
    summary: str
    remedy: str = _REMEDY


def find_untrained(evidence: Evidence) -> NeedlessGradients | None:
    """Return the gradients that were found in modules which no optimizer updates."""
    modules, optimizers = evidence.facts.untrained, evidence.facts.optimizers
    n_owned = optimizer_steps.count_tensors(evidence)
    n_needless = sum(module.tensors for module in modules)
    if not n_needless or n_owned is None:
        return None
    numbers = sum(module.parameters for module in modules)
    owned_numbers = [optimizer.parameters for optimizer in optimizers]
    count_share = n_needless / (n_needless + n_owned)
    size_share = None
    if all(owned_numbers):
        size_share = numbers / (numbers + sum(owned or 0 for owned in owned_numbers))
    if max(count_share, size_share or 0) < _MIN_NEEDLESS_SHARE:
        return None
    largest = max(modules, key=lambda module: module.parameters)
    name = largest.name.rpartition(".")[2]
    line = f" ({name_line(largest.location)})" if largest.location is not None else ""
    more_modules = "" if len(modules) == 1 else f" and {len(modules) - 1} more"
    return NeedlessGradients(
        n_needless,
        count_share,
        size_share,
        largest.location or optimizer_steps.find_optimizer_line(evidence),
        f"Gradients of {n_needless} parameters of {name}{line}{more_modules}, which no optimizer "
        "updates, are computed in each step",
    )


def find_shared_passes(evidence: Evidence) -> NeedlessGradients | None:
    """Return the gradients of one optimizer that are stored for the step of another, and cleared.

    Of models that are trained in turn, one must pass gradients to the other in its turn; where each
    backward pass stores more than any optimizer holds, both do. Which is the one that need not is
    not seen: the smaller counts.
    """
    optimizers = [optimizer for optimizer in evidence.facts.optimizers if optimizer.tensors]
    n_least = windows.sum_calls(evidence, UPDATES).count
    n_stored = windows.sum_calls(evidence, ACCUMULATE).count
    n_tensors = [optimizer.tensors or 0 for optimizer in optimizers]
    if len(optimizers) < _MIN_TURNS or n_least <= max(n_tensors) + _INPUTS:
        return None
    n_needless = min(*n_tensors, n_least - max(n_tensors))
    return NeedlessGradients(
        n_needless,
        n_needless / n_stored,
        1 / len(optimizers) ** 2,  # on average over which it is, as often as they step
        optimizer_steps.find_optimizer_line(evidence),
        f"{len(optimizers)} optimizers step in turn, and each backward pass computes gradients of "
        f"{n_least:.0f} parameters or more, where one holds {max(n_tensors)} at the most; those of "
        "the others are cleared before they step",
        _DETACH,
    )


def count_surplus(evidence: Evidence, backward_rows: Sequence[Work]) -> NeedlessGradients | None:
    """Return the gradients that are stored beyond one for each parameter and backward pass."""
    n_parameters = optimizer_steps.count_tensors(evidence)
    n_stored = windows.sum_calls(evidence, ACCUMULATE).count
    max_inputs = 0 if _are_all_weights(evidence.study.work) else _INPUTS
    if (
        n_parameters is None
        or n_stored <= n_parameters + max_inputs
        or _has_repeated_steps(evidence)
    ):
        return None
    n_needless = n_stored - max(1.0, count_passes(evidence)) * n_parameters
    if n_needless <= max(max_inputs, _MIN_NEEDLESS_SHARE * n_stored):
        return None
    return NeedlessGradients(
        n_needless,
        n_needless / n_stored,
        _needless_share(evidence, backward_rows),
        optimizer_steps.find_optimizer_line(evidence),
        f"Gradients of {n_stored:.0f} parameters are computed in each step, and optimizers step "
        f"{n_stored - n_needless:.0f}: {n_needless:.0f} are needless",
    )


def _are_all_weights(rows: Sequence[Work]) -> bool:
    """Return whether no stored gradient has the size of a batch: then none belongs to an input."""
    stored_sizes = [
        sizes[0] for row in rows if row.operator == ACCUMULATE and (sizes := sizes_of(row))
    ]
    batch_sizes = {size for row in rows if (size := batch_of(row)) is not None}
    return (
        bool(stored_sizes)
        and bool(batch_sizes)
        and not any(set(sizes) & batch_sizes for sizes in stored_sizes)
    )


def _has_repeated_steps(evidence: Evidence) -> bool:
    """Return whether an optimizer steps more than once a step: it may be one of many at its line.

    One for each parameter, or for each member of an ensemble: only the sizes of one are known.
    """
    facts = evidence.facts
    return any(
        optimizer.calls > _MAX_STEP_CALLS * max(1, facts.world.steps)
        for optimizer in facts.optimizers
    )


def count_passes(evidence: Evidence) -> float:
    """Count the backward passes of a step, and calls that only compute gradients."""
    lines = [
        line
        for line in evidence.study.tables.lines
        if line.function == "_engine_run_backward" and "autograd" in line.file
    ]
    if not lines:
        raise NotObservedError("stacks", "no window with stacks tells how many backward passes ran")
    return sum(line.calls for line in lines) / windows.count_steps(evidence)


def _needless_share(evidence: Evidence, backward_rows: Iterable[Work]) -> float | None:
    """Return the needless share of the stored gradients, by their sizes if known."""
    optimizers = evidence.facts.optimizers
    owned_counts = [optimizer.parameters for optimizer in optimizers]
    n_numbers = sum(
        row.calls * prod(sizes_of(row)[0])
        for row in backward_rows
        if row.operator == ACCUMULATE and sizes_of(row)
    )
    if not n_numbers or not all(owned_counts):
        return None
    n_owned = (
        sum(count or 0 for count in owned_counts)
        * max(1.0, count_passes(evidence))
        * windows.count_steps(evidence)
    )
    return 1 - n_owned / n_numbers if 0 < n_owned < n_numbers else None
