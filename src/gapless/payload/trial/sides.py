"""The sides of a process in which edits are switched, and whether their blocks decide them."""

from __future__ import annotations

import math
from typing import Any

from .. import overlay
from . import flags, second_loaders

FIRST_NUMBER = 1000  # of the edits of the first side; so many numbers belong to each
MIN_ROUNDS = 3  # blocks of a side, before it may be decided
_NARROW = 0.01  # half-width of an interval, as logarithm, that is narrow enough …
_NARROW_SHARE = 0.2  # … or as a share of the effect
_NO_EFFECT = 0.04  # within which, on both sides of nothing, an interval shows that there is nothing
_MEDIAN_FACTOR = 1.2  # the standard error of a median over that of the mean
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # Student's, 97.5 %
_T_LARGE = 2.1
_WIDE = 3.0  # times the usual deviation: what lies further off counts as that
_NORMAL = 1.4826  # the standard deviation of normal values over their median deviation
_MIN_DEVIATIONS = 5  # deviations, from which on the usual one is known


class SwitchedSide:
    """The edits of a side, and how long its blocks were beside their neighbours."""

    def __init__(self, index: int, edits: Any) -> None:
        self.index = index
        self.edits = [
            (FIRST_NUMBER * index + position, edit) for position, edit in enumerate(edits)
        ]
        self.flags = [flags.FlagEdit(*edit) for edit in self.edits if flags.is_flag(edit[1])]
        of_loaders = [edit for edit in self.edits if second_loaders.is_about_loaders(edit[1])]
        self.loaders = second_loaders.LoaderEdits(of_loaders) if of_loaders else None
        self.others = [
            (number, edit)
            for number, edit in self.edits
            if not flags.is_flag(edit) and not second_loaders.is_about_loaders(edit)
        ]
        self.undos: list[Any] = []
        self.ratios: list[float] = []
        self.rounds = 0
        self.failed = False

    def apply(self) -> None:
        """Apply the edits. Raises what one of them does."""
        if self.loaders is not None:
            self.undos.append(self.loaders.apply())
        self.undos += [flag.apply() for flag in self.flags]
        for number, edit in self.others:
            undo = overlay.apply_edit(number, edit)
            if undo is not None:
                self.undos.append(undo)

    def revert(self) -> None:
        """Revert them, the last one first."""
        while self.undos:
            self.undos.pop()()

    def find_depth(self) -> int:
        """Return how many batches its loaders make ahead."""
        return 0 if self.loaders is None else self.loaders.find_depth()

    def close(self) -> None:
        """End what was kept for the next time that it is on."""
        if self.loaders is not None:
            self.loaders.close()

    def is_decided(self, aa_ratios: list[float]) -> bool:
        """Return whether more blocks would not narrow the interval to any use."""
        if len(self.ratios) < MIN_ROUNDS:
            return False
        mid = median(self.ratios)
        half_width = find_half_width(self.ratios, aa_ratios)
        return (
            half_width <= max(_NARROW, _NARROW_SHARE * abs(mid))
            or abs(mid) + half_width < _NO_EFFECT
        )


def find_half_width(ratios: list[float], aa_ratios: list[float]) -> float:
    """Return the half-width of the interval of the median of some ratios, as logarithm.

    Their spread is pooled with that of ``aa_ratios``, of which the true value is 0.
    """
    mean = sum(ratios) / len(ratios)
    deviations = [*limit([ratio - mean for ratio in ratios]), *limit(aa_ratios)]
    freedom = len(ratios) - 1
    spread = math.sqrt(sum(value * value for value in deviations) / (freedom + len(aa_ratios)))
    freedom += len(aa_ratios) // 2
    quantile = _T[freedom - 1] if freedom <= len(_T) else _T_LARGE
    return quantile * _MEDIAN_FACTOR * spread / math.sqrt(len(ratios))


def limit(deviations: list[float]) -> list[float]:
    """Return deviations from 0, of which what is far beyond the usual ones counts as less."""
    if len(deviations) < _MIN_DEVIATIONS:
        return deviations
    max_deviation = _WIDE * _NORMAL * median([abs(value) for value in deviations])
    return [max(-max_deviation, min(max_deviation, value)) for value in deviations]


def median(values: list[float]) -> float:
    """Return the median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
