"""What answers are worth, on records whose truth was measured (``docs/accuracy.md`` defines each).

All functions are pure; a share tells of how many it is, and is ``None`` of none.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation, followed_line, matching_lines
from benchmarks.judging.causes import KERNELS
from benchmarks.judging.records import MIN_GAIN, SOUND, UNDECIDED, MenuLine, Record
from gapless.model.estimate import Estimate

ALPHA: Final = 0.1  # what a 90 % interval may miss
_MIN_SIGNED_GAIN: Final = MIN_GAIN  # a gain of so much of a step has a sign
JudgedCases = Sequence[tuple[Record, Answer]]


@dataclass(frozen=True)
class CaseShare:
    """So many of so many."""

    count: int
    total: int

    @property
    def value(self) -> float | None:
        """Return the share; ``None`` of none."""
        return self.count / self.total if self.total else None


@dataclass(frozen=True)
class Miss:
    """A predicted gain beside the measured one."""

    case: str
    kind: str  # of training
    line: str
    family: str
    predicted: Estimate
    measured: Estimate

    @property
    def points(self) -> float:
        """Return the error in points of the step's time."""
        return gain_points(self.predicted.mid) - gain_points(self.measured.mid)

    @property
    def rate(self) -> float:
        """Return the error of the rate of steps, relative."""
        return self.predicted.mid / self.measured.mid - 1


def gain_points(speedup: float) -> float:
    """Return a speed-up as points of the unchanged step's time."""
    return 100 * (1 - 1 / speedup)


# ── What is named ───────────────────────────────────────────────────────────────────────────────


def hit_share(judged: JudgedCases, n_first: int) -> CaseShare:
    """Count the cases whose best remedy is among the first recommendations."""
    cases = [(record, answer) for record, answer in judged if record.matters]
    return CaseShare(sum(_is_hit(*case, n_first) for case in cases), len(cases))


def _is_hit(record: Record, answer: Answer, n_first: int) -> bool:
    """Return whether the best is named: the cause counts here, its value in the regret.

    But for a value that is near one that was measured to do nothing.
    """
    best = {line.name for line in record.acceptable}
    recommendations = [
        recommendation
        for recommendation in answer.named[:n_first]
        if not _is_false(record, recommendation)
    ]
    return any(
        line.name in best
        for recommendation in recommendations
        for line in matching_lines(record, recommendation)
    )


def off_menu_share(judged: JudgedCases) -> CaseShare:
    """Count the first recommendations that no menu can judge."""
    firsts = [(record, answer.named[0]) for record, answer in judged if answer.named]
    return CaseShare(sum(followed_line(*pair) is None for pair in firsts), len(firsts))


def regrets(judged: JudgedCases) -> list[float]:
    """Return for each decided case what following the first recommendation leaves of the best.

    As a share of the best speed-up. Who recommends nothing, or what no menu can judge, leaves all.
    """
    return [_regret(*case) for case in judged if case[0].truth != UNDECIDED]


def _regret(record: Record, answer: Answer) -> float:
    best = record.best
    best_speedup = max(
        1.0, best.speedup.mid if best is not None and best.speedup is not None else 1.0
    )
    followed = followed_line(record, answer.named[0]) if answer.named else None
    reached_speedup = (
        followed.speedup.mid if followed is not None and followed.speedup is not None else 1.0
    )
    return max(0.0, (best_speedup - reached_speedup) / best_speedup)


def false_alarms(judged: JudgedCases) -> CaseShare:
    """Count the sound cases (healthy ones and decoys) of which anything was recommended."""
    sound = [answer for record, answer in judged if record.truth == SOUND]
    return CaseShare(sum(bool(answer.named) for answer in sound), len(sound))


def open_alarms(judged: JudgedCases) -> CaseShare:
    """Count the undecided cases of which anything was recommended: right or false, who knows."""
    undecided = [answer for record, answer in judged if record.truth == UNDECIDED]
    return CaseShare(sum(bool(answer.named) for answer in undecided), len(undecided))


def false_per_report(judged: JudgedCases) -> float | None:
    """Return how many recommendations of a report were measured to be worth less than 2 %."""
    counts = [
        sum(_is_false(record, recommendation) for recommendation in answer.named)
        for record, answer in judged
    ]
    return fmean(counts) if counts else None


def _is_false(record: Record, recommendation: Recommendation) -> bool:
    followed = followed_line(record, recommendation)
    return followed is not None and followed.harmless


def harmless_named(judged: JudgedCases) -> CaseShare:
    """Count the lines that were measured to be harmless, and were recommended all the same."""
    lines = [
        (
            line,
            {
                followed.name
                for recommendation in answer.named
                if (followed := followed_line(record, recommendation))
            },
        )
        for record, answer in judged
        for line in record.lines
        if line.single and line.harmless
    ]
    return CaseShare(sum(line.name in names for line, names in lines), len(lines))


def answered_share(judged: JudgedCases) -> CaseShare:
    """Count the cases of which anything was said, "nothing to gain" included."""
    return CaseShare(sum(answer.refused is None for _, answer in judged), len(judged))


# ── What is predicted ───────────────────────────────────────────────────────────────────────────


def gain_misses(judged: JudgedCases, *, rough: bool = False) -> list[Miss]:
    """Return the predictions of all lines that were measured well enough to judge them.

    ``rough``: with those that were measured less well, whose noise is then part of the error.
    """
    return [
        Miss(record.case, record.kind, line.name, line.family, answer.predicted[line.name], truth)
        for record, answer in judged
        for line, truth in _exact_lines(record, rough=rough)
        if line.name in answer.predicted
    ]


def predicted_share(judged: JudgedCases) -> CaseShare:
    """Count the lines, of those that can judge a gain, for which one was predicted."""
    lines = [(answer, line) for record, answer in judged for line, _ in _exact_lines(record)]
    return CaseShare(sum(line.name in answer.predicted for answer, line in lines), len(lines))


def _exact_lines(record: Record, *, rough: bool = False) -> list[tuple[MenuLine, Estimate]]:
    lines = [line for line in record.lines if line.exact or (rough and line.rough)]
    return [(line, line.speedup) for line in lines if line.speedup is not None]


def mean_error(misses: Iterable[Miss]) -> float | None:
    """Return the mean absolute error, in points of step time."""
    return mean(abs(miss.points) for miss in misses)


def bias(misses: Iterable[Miss]) -> float | None:
    """Return the mean error with its sign: above 0, too much is promised."""
    return mean(miss.points for miss in misses)


def rate_error(misses: Iterable[Miss]) -> float | None:
    """Return the mean absolute error of the rate of steps, relative."""
    return mean(abs(miss.rate) for miss in misses)


def signs(misses: Iterable[Miss]) -> CaseShare:
    """Count the gains and losses of 2 % and more that were foretold as such."""
    clear = [
        miss for miss in misses if abs(gain_points(miss.measured.mid)) >= 100 * _MIN_SIGNED_GAIN
    ]
    return CaseShare(
        sum((miss.predicted.mid > 1) == (miss.measured.mid > 1) for miss in clear), len(clear)
    )


def by_family(misses: Iterable[Miss]) -> dict[str, list[Miss]]:
    """Part predictions by what is changed, and once more into structure and kernels."""
    families: dict[str, list[Miss]] = {"structural": [], "kernels": []}
    for miss in misses:
        families["kernels" if miss.family == KERNELS else "structural"].append(miss)
        families.setdefault(miss.family, []).append(miss)
    return families


def covered_share(misses: Iterable[Miss]) -> CaseShare:
    """Count the intervals that the measured gain lies in."""
    gains = [(miss.predicted, miss.measured.mid) for miss in misses]
    return CaseShare(
        sum(estimate.low <= truth <= estimate.high for estimate, truth in gains), len(gains)
    )


def width(misses: Iterable[Miss]) -> float | None:
    """Return the mean width of an interval, in points of step time."""
    return mean(
        gain_points(miss.predicted.high) - gain_points(miss.predicted.low) for miss in misses
    )


def winkler(misses: Iterable[Miss]) -> float | None:
    """Return the mean Winkler score of the 90 % intervals, in points: width, and what is missed."""
    return mean(_winkler(miss) for miss in misses)


def _winkler(miss: Miss) -> float:
    low, high = gain_points(miss.predicted.low), gain_points(miss.predicted.high)
    truth = gain_points(miss.measured.mid)
    return high - low + 2 / ALPHA * (max(0.0, low - truth) + max(0.0, truth - high))


def kendall(judged: JudgedCases) -> tuple[float | None, int]:
    """Return the mean Kendall τ-b of predicted and measured gains over cases, and their number."""
    taus = [tau for case in judged if (tau := _tau(*case)) is not None]
    return (fmean(taus) if taus else None), len(taus)


def _tau(record: Record, answer: Answer) -> float | None:
    pairs = [
        (answer.predicted[line.name].mid, line.speedup.mid)
        for line in record.lines
        if line.speedup is not None and line.name in answer.predicted
    ]
    return tau_b(pairs)


def tau_b(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Kendall's τ-b; ``None`` where one side does not differ at all."""
    signs = [
        (_sign(a[0] - b[0]), _sign(a[1] - b[1]))
        for index, a in enumerate(pairs)
        for b in pairs[index + 1 :]
    ]
    score = sum(x * y for x, y in signs)
    scale = math.sqrt(sum(x != 0 for x, _ in signs) * sum(y != 0 for _, y in signs))
    return score / scale if scale else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; ``None`` of nothing."""
    numbers = list(values)
    return fmean(numbers) if numbers else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of them does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
