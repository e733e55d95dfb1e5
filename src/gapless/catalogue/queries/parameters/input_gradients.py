"""Gradients of what the model is given, and what the backward pass takes for them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.compute import work_of
from gapless.catalogue.queries.lines import training_calls
from gapless.catalogue.queries.parameters.gradients import ACCUMULATE, count_passes
from gapless.catalogue.queries.products import input_of, weight_of
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of
from gapless.roofline.roofline import NO_CHANGE

_Sizes = tuple[int, ...]
_MAX_PASSES: Final = 1.5  # a step: more are made for the gradients of inputs (attacks, penalties)
_CONVOLUTION: Final = "aten::convolution_backward"
_WEIGHT: Final = 2  # among the sizes of that: after the gradient and the input
_PRODUCTS: Final = ("aten::mm", "aten::matmul")
# Of the backward pass of a convolution, where its forward pass does not tell: two of its products
# are as large as that, and one goes.
_HALF: Final = Estimate(0.25, 0.5, 0.75)


class InputGradients(Struct, frozen=True):
    """Gradients that are stored in what a model is given."""

    sizes: tuple[_Sizes, ...]
    count: float  # a step, beyond those that optimizers hold
    location: Location | None  # of the model's call

    def remain(self, rows: Sequence[Work], row: Work) -> Estimate:
        """Return the part of a row of the backward pass that stays without them."""
        sizes = sizes_of(row)
        if not row.backward or not sizes:
            return NO_CHANGE
        if row.operator == ACCUMULATE and sizes[0] in self.sizes:
            return Estimate(0.0, 0.0, 0.0)
        if row.operator == _CONVOLUTION and len(sizes) > _WEIGHT and sizes[1] in self.sizes:
            return _keep_weights(rows, row, sizes)
        is_product = row.operator in _PRODUCTS and len(sizes) > 1
        if is_product and (*sizes[0][:-1], *sizes[1][-1:]) in self.sizes:
            return Estimate(0.0, 0.0, 0.0)
        return NO_CHANGE


def find_input_gradients(evidence: Evidence) -> InputGradients | None:
    """Return the gradients that a single backward pass stores in what layers are given, if any.

    They belong to no parameter: more are stored than optimizers hold, and they have the sizes of
    what a layer is given, not those of a weight.
    """
    n_parameters = optimizer_steps.count_tensors(evidence)
    n_stored = windows.sum_calls(evidence, ACCUMULATE).count
    if n_parameters is None or n_stored < n_parameters + 1:
        return None
    rows = work_of(evidence)
    input_shapes = {input_of(row) for row in rows} - {weight_of(row) for row in rows}
    stored = {
        sizes[0] for row in rows if row.operator == ACCUMULATE and (sizes := sizes_of(row))
    } & input_shapes
    if not stored or count_passes(evidence) > _MAX_PASSES:
        return None
    return InputGradients(tuple(sorted(stored)), n_stored - n_parameters, _find_call(evidence))


def _keep_weights(rows: Sequence[Work], row: Work, sizes: Sequence[_Sizes]) -> Estimate:
    """Return what the gradient of a weight takes of a row: about as long as the forward pass."""
    forward_ns = sum(
        other.ns
        for other in rows
        if (input_of(other), weight_of(other)) == (sizes[1], sizes[_WEIGHT])
    )
    if not forward_ns or not row.ns:
        return _HALF
    share = min(_HALF.high, forward_ns / row.ns)
    return Estimate(share / 2, share, max(_HALF.mid, share))


def _find_call(evidence: Evidence) -> Location | None:
    """Return the line of the stepping function that calls a model, by sampled stacks."""
    stepping_functions = training_calls.find_stepping_functions(evidence.call_lines)
    calls = [
        call
        for call in evidence.call_lines
        if (call.file, call.function) in stepping_functions and call.callee.endswith(".forward")
    ]
    top = max(calls, key=lambda call: call.share, default=None)
    return None if top is None else Location(top.file, top.line, top.function)
