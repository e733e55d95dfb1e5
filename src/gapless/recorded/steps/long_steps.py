"""Steps that come regularly and last far longer than the others: something is done in them alone.

A training may do something every twentieth step that no mark shows (codes that are seeded again, a
figure that is drawn, an evaluation in no mode). What other processes do to steps comes at random:
regularity tells the one from the other.
"""

from math import lgamma, log
from typing import Final

import numpy as np

from gapless.accounting.intervals import cover
from gapless.accounting.run_row import RUN_LEAF
from gapless.model.rhythm import LongSteps
from gapless.model.trace import Int64
from gapless.recorded.steps.rows import TrainingRow, exposed_row
from gapless.recorded.training.edges import Bool
from gapless.recorded.training.processes import counted_lane

_MIN_PERIOD: Final = 4  # steps: below that, steps take turns, and all of them are the training
_MAX_PERIOD: Final = 1000  # steps
_MIN_COUNT: Final = 3  # long steps: two whole periods
_MAX_STEPS: Final = 10_000  # steps that are looked at
_MIN_RATIO: Final = 2.0  # times the usual step
_MIN_LONG_SHARE: Final = 0.8  # of the steps at such distances
_MAX_DISTANCES: Final = 2  # between long steps: within an epoch, and over the end of one
_MAX_CHANCE: Final = 0.01  # that long steps at random come so regularly


def find_long_steps(training_row: TrainingRow) -> LongSteps | None:
    """Return the regular long steps of a process; ``None``: there are none."""
    edges = training_row.training.edges
    if len(edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
        return None
    row, lane = exposed_row(training_row, 0), counted_lane(training_row.training)
    is_step = row.leaf == RUN_LEAF["step"]
    cut = cover(lane, row.start[is_step], row.end[is_step])
    is_inside = cut.piece >= 0
    lengths = np.zeros(len(lane), np.int64)
    np.add.at(lengths, cut.piece[is_inside], (cut.end - cut.start)[is_inside])
    numbers = (np.cumsum(edges.step_counts) - edges.step_counts)[lane.owner]
    is_single = edges.is_single[lane.owner]
    return match_period(numbers[is_single][:_MAX_STEPS], lengths[is_single][:_MAX_STEPS])


def match_period(numbers: Int64, lengths: Int64) -> LongSteps | None:
    """Return the long steps among some, by their numbers and lengths, of the period that fits best.

    With a multiple of the period half of them or more would count as usual steps, with a divisor
    usual ones as long.
    """
    if len(numbers) < _MIN_PERIOD * _MIN_COUNT:
        return None
    excess = np.maximum(lengths - np.median(lengths), 0).astype(np.float64)
    max_period = min(_MAX_PERIOD, int(numbers[-1] - numbers[0]) // (_MIN_COUNT - 1))
    matches = (
        _match_phase(lengths, _largest_phase(numbers, excess, period), period)
        for period in range(2, max_period + 1)
    )
    candidates = (*matches, _match_distances(numbers, lengths))
    best = max(
        (match for match in candidates if match is not None),
        key=lambda match: match.count * match.excess_ns,
        default=None,
    )
    return None if best is None or best.period < _MIN_PERIOD else best


def _match_distances(numbers: Int64, lengths: Int64) -> LongSteps | None:
    """Return all long steps, if few distances occur between them, and not by chance.

    What is done every fiftieth step of an epoch comes after fifty steps, or after the rest of one.
    The period is the mean distance.
    """
    is_long = lengths > _MIN_RATIO * np.median(lengths)
    n_long = int(is_long.sum())
    if n_long < _MIN_COUNT + _MAX_DISTANCES or n_long * _MIN_PERIOD > len(lengths):
        return None
    distances = np.diff(numbers[is_long])
    counts = np.sort(np.unique(distances, return_counts=True)[1])[::-1]
    n_usual = int(counts[:_MAX_DISTANCES].sum())
    if n_usual < _MIN_LONG_SHARE * len(distances):
        return None
    # Of steps that are long at random, no distance is likelier than the share of such steps.
    random_share = min(1.0, _MAX_DISTANCES * n_long / len(lengths))
    n_choices = float(distances.max()) ** _MAX_DISTANCES
    combinations = (
        lgamma(len(distances) + 1) - lgamma(n_usual + 1) - lgamma(len(distances) - n_usual + 1)
    )
    if log(n_choices) + combinations + n_usual * log(random_share) > log(_MAX_CHANCE):
        return None
    usual = float(lengths[~is_long].mean())
    period = round(float(distances.mean()))
    return LongSteps(n_long, period, round(float(lengths[is_long].mean()) - usual), round(usual))


def _largest_phase(
    numbers: Int64, excess: np.ndarray[tuple[int], np.dtype[np.float64]], period: int
) -> Bool:
    """Return which steps are of the phase of a period with most excess."""
    phases = numbers % period
    sums = np.bincount(phases, excess, period)
    return phases == int(np.argmax(sums))


def _match_phase(lengths: Int64, is_due: Bool, period: int) -> LongSteps | None:
    """Return the steps of a phase, if they are far longer than others, and not by chance."""
    due_ns, other_ns = lengths[is_due], lengths[~is_due]
    if len(due_ns) < _MIN_COUNT or not len(other_ns):
        return None
    usual = float(other_ns.mean())
    n_due, n_long = len(due_ns), int((due_ns > _MIN_RATIO * usual).sum())
    if n_long < max(_MIN_COUNT, _MIN_LONG_SHARE * n_due):
        return None
    random_share = (int((other_ns > _MIN_RATIO * usual).sum()) + 1) / (len(other_ns) + 2)
    n_choices = period * period / 2  # of shorter periods and their phases
    combinations = lgamma(n_due + 1) - lgamma(n_long + 1) - lgamma(n_due - n_long + 1)
    if log(n_choices) + combinations + n_long * log(random_share) > log(_MAX_CHANCE):
        return None
    return LongSteps(n_due, period, round(float(due_ns.mean()) - usual), round(usual))
