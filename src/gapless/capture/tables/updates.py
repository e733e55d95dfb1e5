"""How many gradients are stored for each optimizer's step, where several step in turn."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.study import UPDATES
from gapless.model.tables import Operator, Tables
from gapless.model.trace import Int64

_STEP, _ZERO_GRAD = "Optimizer.step#", "Optimizer.zero_grad#"
_STORED: Final = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
_MIN_OPTIMIZERS: Final = 2


def add_updates(tables: Tables, view: CaptureView) -> Tables:
    """Return tables with a row of the gradients that are stored for each optimizer's step.

    Its calls are those of the optimizer with the fewest of them. There is none unless as many
    optimizers, two or more, step in each of the steps, with a backward pass before each, and
    gradients are cleared between any two: only those of the optimizer that steps next are used.
    """
    n_steps, updates = view.account.steps, _find(view, category.USER_ANNOTATION, _STEP)
    if not n_steps or len(updates) % n_steps or len(updates) < _MIN_OPTIMIZERS * n_steps:
        return tables
    ends = view.trace.events.start[updates]
    n_stored = _count_before(view, _find(view, category.CPU_OP, _STORED), ends)
    n_cleared = _count_before(view, _find(view, category.USER_ANNOTATION, _ZERO_GRAD), ends)
    if not n_stored.all() or not n_cleared[1:].all():
        return tables
    row = Operator(UPDATES, None, int(n_stored.min()) * n_steps, 0, 0, None, None)
    return replace(tables, operators=(*tables.operators, row))


def _find(view: CaptureView, kind: int, prefix: str) -> Int64:
    """Return the counted events of a kind whose names begin so, in their order."""
    events, names = view.trace.events, view.trace.names
    rows = view.counted_events(kind)
    is_named = np.array([name.startswith(prefix) for name in names], bool)
    rows = rows[is_named[events.name[rows]]]
    return rows[np.argsort(events.start[rows], kind="stable")]


def _count_before(view: CaptureView, rows: Int64, ends: Int64) -> Int64:
    """Count the events between each of some instants and the one before it."""
    return np.diff(np.searchsorted(view.trace.events.start[rows], ends), prepend=0)
