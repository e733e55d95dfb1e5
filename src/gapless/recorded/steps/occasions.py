"""How often lumps of a run (checkpoints, evaluation …) come, and how well their share is known.

They are measured one by one, by marks around them. The variation of step times says nothing about
them: what blurs their share of a run is how much they differ from one another, and where the run
happens to begin and to end between two of them. What was seen once or twice, or in a small part of
the run alone, may come back tomorrow or never: its share of a short recording is not a share of the
training.
"""

from collections.abc import Mapping, Sequence
from math import hypot, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.intervals import Lane, cover
from gapless.accounting.run_row import RUN_LEAVES, RunRow
from gapless.model.rhythm import Sighting
from gapless.model.run import RunSteps
from gapless.model.study import Study
from gapless.model.trace import Int64
from gapless.recorded.steps.account import LUMP_LEAVES, leaf_of
from gapless.recorded.steps.long_steps import find_long_steps
from gapless.recorded.steps.rows import TrainingRow, exposed_row
from gapless.recorded.training.processes import counted_lane

_MIN_OCCASIONS: Final = 3  # occasions: from the first to the third are two whole periods
_MAX_UNSEEN_SHARE: Final = 0.5  # of the run, before the first or after the last
_MAX_UNSEEN_RATIO: Final = 2.0  # times the longest distance: or as long as that
_EDGE_ERROR: Final = 0.5  # of an occasion: the error of their count, given that of the steps
_MAX_DIFFERENCE: Final = 0.1  # regular distances differ by at most this share
_NORMAL_QUANTILE: Final = NormalDist().inv_cdf(0.95)
_EPOCH_TURN: Final = "idle.data.start-up"  # an iteration also begins with the run
_UNKNOWN_SPREAD: Final = 1.0  # it may equally well never come back, or come twice as often


class Occasions(Struct, frozen=True):
    """What some pieces of a run are: in which steps, and how long in each."""

    steps: Int64  # the number of the step in which each lies
    lengths: Int64  # of those in counted steps recorded one by one
    each_ns: int
    n_steps: int  # steps of the run

    @property
    def distances(self) -> Int64:
        """Return the steps between one and the next."""
        return np.diff(self.steps)

    def period(self, *, begins: bool) -> float | None:
        """Return the steps from one to the next, once two whole periods were seen, else ``None``.

        Two occasions are enough where the first came as long after the beginning, or where the
        beginning of the run is an occasion itself. They have to be spread over the run: what came
        three times and then for long no more has no period that goes on.
        """
        if not self._are_spread():
            return None
        distances = self.distances
        if len(self.steps) == _MIN_OCCASIONS - 1:
            first_distance = self.steps[:1] + 1
            distances = (
                np.concatenate((first_distance, distances))
                if begins or _is_alike(first_distance, distances)
                else distances
            )
        return float(distances.mean()) if len(distances) >= _MIN_OCCASIONS - 1 else None

    def _are_spread(self) -> bool:
        """Return whether they did not end, or begin, long before the run did."""
        longest = max(self.distances, default=0)
        unseen = max(int(self.steps[0]), self.n_steps - int(self.steps[-1]))
        return unseen <= max(_MAX_UNSEEN_SHARE * self.n_steps, _MAX_UNSEEN_RATIO * longest)

    def fits(self, period: float) -> bool:
        """Return whether they came with that regularity all the time, and continue."""
        max_distance = period * (1 + _MAX_DIFFERENCE) + 1
        lead_steps, tail_steps = int(self.steps[0]), self.n_steps - int(self.steps[-1])
        return (
            _is_alike(self.distances, np.array([period]))
            and max(lead_steps, tail_steps) <= max_distance
        )


def add_occasions(
    steps: RunSteps | None, training_rows: Sequence[TrainingRow], windows: Study | None
) -> RunSteps | None:
    """Add how often lumps come on the first rank; for a single rank, how well that is known.

    For a single rank without a device also which steps are long: where a device computes, the
    host's edges do not show how long a step takes it.
    """
    if steps is None or not training_rows:
        return steps
    backlog = (windows.backlog_ns if windows else None) or 0
    lumps = find_occasions(training_rows[0], backlog)
    sighted = replace(steps, sightings=sightings(lumps))
    if len(training_rows) > 1:
        return sighted
    is_host_alone = windows is None or all(row.row.device is None for row in windows.account.rows)
    long_steps = find_long_steps(training_rows[0]) if is_host_alone else None
    return replace(sighted, spreads=spreads(lumps), long_steps=long_steps)


def find_occasions(training_row: TrainingRow, backlog: int) -> dict[str, Occasions]:
    """Return by leaf of the account what lumps a process had between its steps."""
    edges = training_row.training.edges
    if len(edges.ends) < 2:  # noqa: PLR2004 - nothing lies between
        return {}
    row = exposed_row(training_row, backlog)
    lumps = dict[str, Occasions]()
    leaves = [leaf_of(leaf) for leaf in RUN_LEAVES]
    step_lane = Lane(edges.ends[:-1], edges.ends[1:], np.arange(len(edges.ends) - 1))
    step_numbers = np.cumsum(edges.step_counts) - edges.step_counts
    lane = counted_lane(training_row.training)
    for name in LUMP_LEAVES.values():
        is_lump = np.array([leaf == name for leaf in leaves])[row.leaf]
        pieces = RunRow(row.start[is_lump], row.end[is_lump], row.leaf[is_lump], row.culprit)
        lump_ns = _covered_ns(step_lane, pieces)
        if lump_ns.any():
            counted_ns = _covered_ns(lane, pieces)
            lumps[name] = Occasions(
                steps=step_numbers[lump_ns > 0],
                lengths=counted_ns[edges.is_single[lane.owner] & (counted_ns > 0)],
                each_ns=round(float(lump_ns[lump_ns > 0].mean())),
                n_steps=int(edges.step_counts.sum()),
            )
    return lumps


def sightings(lumps: Mapping[str, Occasions]) -> dict[str, Sighting]:
    """Return by leaf how often something was seen, and how many steps lie between."""
    return {
        leaf: Sighting(
            count=len(lump.steps),
            each_ns=lump.each_ns,
            period=lump.period(begins=leaf == _EPOCH_TURN),
            at_start=len(lump.steps) == 1 and lump.steps[0] == 0 and lump.n_steps > 1,
        )
        for leaf, lump in lumps.items()
    }


def spreads(lumps: Mapping[str, Occasions]) -> dict[str, float]:
    """Return by leaf of the account the relative half-width of the 90 % interval of a lump's mean.

    All that a leaf has in one step is one occasion.
    """
    return {leaf: _spread(lump, begins=leaf == _EPOCH_TURN) for leaf, lump in lumps.items()}


def _spread(lump: Occasions, *, begins: bool) -> float:
    """Return the half-width: for regular ones, how far off their share of this recording is.

    For others, the edges of the recording blur their count.
    """
    period, n_lengths = lump.period(begins=begins), len(lump.lengths)
    if period is None or not n_lengths:
        return _UNKNOWN_SPREAD
    mean_error = (
        float(lump.lengths.std(ddof=1) / lump.lengths.mean()) / sqrt(n_lengths)
        if n_lengths > 1
        else 0.0
    )
    if lump.fits(period):
        share_error = lump.n_steps / period / len(lump.steps) - 1
        return hypot(_quantile(max(n_lengths, _MIN_OCCASIONS)) * mean_error, share_error)
    if n_lengths < _MIN_OCCASIONS:
        return _UNKNOWN_SPREAD
    return _quantile(n_lengths) * hypot(mean_error, _EDGE_ERROR / n_lengths)


def _quantile(n_samples: int) -> float:
    """Return a quantile of Student's distribution, by first terms of a Cornish–Fisher expansion."""
    degrees = n_samples - 1
    quantile = _NORMAL_QUANTILE + (_NORMAL_QUANTILE**3 + _NORMAL_QUANTILE) / (4 * degrees)
    return quantile + (
        5 * _NORMAL_QUANTILE**5 + 16 * _NORMAL_QUANTILE**3 + 3 * _NORMAL_QUANTILE
    ) / (96 * degrees**2)


def _covered_ns(lane: Lane, pieces: RunRow) -> Int64:
    """Return how much of some pieces lies in each piece of a lane."""
    cut = cover(lane, pieces.start, pieces.end)
    is_inside = cut.piece >= 0
    covered_ns = np.zeros(len(lane), np.int64)
    np.add.at(covered_ns, cut.piece[is_inside], (cut.end - cut.start)[is_inside])
    return covered_ns


def _is_alike(
    distances: Int64, expected: Int64 | np.ndarray[tuple[int], np.dtype[np.float64]]
) -> bool:
    """Return whether some distances equal others, within a step or a tenth."""
    mean_distance = float(expected.mean())
    return bool(
        (np.abs(distances - mean_distance) <= max(1.0, _MAX_DIFFERENCE * mean_distance)).all()
    )
