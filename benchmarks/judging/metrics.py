"""What answers are worth, on records whose truth was measured (``docs/accuracy.md`` defines each).

All functions are pure; a share tells of how many it is, and is ``None`` of none.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation, line_done, lines_meant
from benchmarks.judging.causes import KERNELS
from benchmarks.judging.records import SOUND, UNDECIDED, WORTH, Line, Record
from gapless.model.interval import Interval

ALPHA: Final = 0.1  # what a 90 % interval may miss
_SIGN: Final = WORTH  # a gain of so much of a step has a sign
Judged = Sequence[tuple[Record, Answer]]


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """Give the share; ``None`` of none."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True)
class Miss:
    """A predicted gain beside the measured one."""

    case: str
    kind: str  # of training
    line: str
    family: str
    predicted: Interval
    measured: Interval

    @property
    def points(self) -> float:
        """Give the error in points of the step's time."""
        return gained(self.predicted.mid) - gained(self.measured.mid)

    @property
    def rate(self) -> float:
        """Give the error of the rate of steps, relative."""
        return self.predicted.mid / self.measured.mid - 1


def gained(speedup: float) -> float:
    """Give a speed-up as points of the unchanged step's time."""
    return 100 * (1 - 1 / speedup)


# ── What is named ───────────────────────────────────────────────────────────────────────────────


def found(judged: Judged, first: int) -> Share:
    """Count the cases whose best remedy is among the first recommendations."""
    cases = [(record, answer) for record, answer in judged if record.matters]
    return Share(sum(_hits(*one, first) for one in cases), len(cases))


def _hits(record: Record, answer: Answer, first: int) -> bool:
    """Tell whether the best is named: the cause counts here, its value in the regret.

    But for a value that is near one that was measured to do nothing.
    """
    best = {one.name for one in record.accepted}
    named = [one for one in answer.named[:first] if not _is_false(record, one)]
    return any(line.name in best for one in named for line in lines_meant(record, one))


def off_menu(judged: Judged) -> Share:
    """Count the first recommendations that no menu can judge."""
    firsts = [(record, answer.named[0]) for record, answer in judged if answer.named]
    return Share(sum(line_done(*one) is None for one in firsts), len(firsts))


def regrets(judged: Judged) -> list[float]:
    """Give for each decided case what following the first recommendation leaves of the best.

    As a share of the best speed-up. Who recommends nothing, or what no menu can judge, leaves all.
    """
    return [_regret(*one) for one in judged if one[0].truth != UNDECIDED]


def _regret(record: Record, answer: Answer) -> float:
    best = record.best
    most = max(1.0, best.speedup.mid if best is not None and best.speedup is not None else 1.0)
    done = line_done(record, answer.named[0]) if answer.named else None
    reached = done.speedup.mid if done is not None and done.speedup is not None else 1.0
    return max(0.0, (most - reached) / most)


def false_alarms(judged: Judged) -> Share:
    """Count the sound cases (healthy ones and decoys) of which anything was recommended."""
    sound = [answer for record, answer in judged if record.truth == SOUND]
    return Share(sum(bool(one.named) for one in sound), len(sound))


def open_alarms(judged: Judged) -> Share:
    """Count the undecided cases of which anything was recommended: right or false, who knows."""
    some = [answer for record, answer in judged if record.truth == UNDECIDED]
    return Share(sum(bool(one.named) for one in some), len(some))


def false_per_report(judged: Judged) -> float | None:
    """Give how many recommendations of a report were measured to be worth less than 2 %."""
    counts = [sum(_is_false(record, one) for one in answer.named) for record, answer in judged]
    return fmean(counts) if counts else None


def _is_false(record: Record, named: Recommendation) -> bool:
    done = line_done(record, named)
    return done is not None and done.harmless


def harmless_named(judged: Judged) -> Share:
    """Count the lines that were measured to be harmless, and were recommended all the same."""
    lines = [
        (line, {one.name for named in answer.named if (one := line_done(record, named))})
        for record, answer in judged
        for line in record.lines
        if line.single and line.harmless
    ]
    return Share(sum(line.name in named for line, named in lines), len(lines))


def answered(judged: Judged) -> Share:
    """Count the cases of which anything was said, "nothing to gain" included."""
    return Share(sum(answer.refused is None for _, answer in judged), len(judged))


# ── What is predicted ───────────────────────────────────────────────────────────────────────────


def misses(judged: Judged, *, rough: bool = False) -> list[Miss]:
    """Give the predictions of all lines that were measured well enough to judge them.

    ``rough``: with those that were measured less well, whose noise is then part of the error.
    """
    return [
        Miss(record.case, record.kind, line.name, line.family, answer.predicted[line.name], truth)
        for record, answer in judged
        for line, truth in _exact(record, rough=rough)
        if line.name in answer.predicted
    ]


def predicted(judged: Judged) -> Share:
    """Count the lines, of those that can judge a gain, for which one was predicted."""
    lines = [(answer, line) for record, answer in judged for line, _ in _exact(record)]
    return Share(sum(line.name in answer.predicted for answer, line in lines), len(lines))


def _exact(record: Record, *, rough: bool = False) -> list[tuple[Line, Interval]]:
    some = [one for one in record.lines if one.exact or (rough and one.rough)]
    return [(one, one.speedup) for one in some if one.speedup is not None]


def mean_error(some: Iterable[Miss]) -> float | None:
    """Give the mean absolute error, in points of step time."""
    return mean(abs(one.points) for one in some)


def bias(some: Iterable[Miss]) -> float | None:
    """Give the mean error with its sign: above 0, too much is promised."""
    return mean(one.points for one in some)


def rate_error(some: Iterable[Miss]) -> float | None:
    """Give the mean absolute error of the rate of steps, relative."""
    return mean(abs(one.rate) for one in some)


def signs(some: Iterable[Miss]) -> Share:
    """Count the gains and losses of 2 % and more that were foretold as such."""
    clear = [one for one in some if abs(gained(one.measured.mid)) >= 100 * _SIGN]
    return Share(
        sum((one.predicted.mid > 1) == (one.measured.mid > 1) for one in clear), len(clear)
    )


def by_family(some: Iterable[Miss]) -> dict[str, list[Miss]]:
    """Part predictions by what is changed, and once more into structure and kernels."""
    parted: dict[str, list[Miss]] = {"structural": [], "kernels": []}
    for one in some:
        parted["kernels" if one.family == KERNELS else "structural"].append(one)
        parted.setdefault(one.family, []).append(one)
    return parted


def covered(some: Iterable[Miss]) -> Share:
    """Count the intervals that the measured gain lies in."""
    every = [(one.predicted, one.measured.mid) for one in some]
    return Share(sum(one.low <= truth <= one.high for one, truth in every), len(every))


def width(some: Iterable[Miss]) -> float | None:
    """Give the mean width of an interval, in points of step time."""
    return mean(gained(one.predicted.high) - gained(one.predicted.low) for one in some)


def winkler(some: Iterable[Miss]) -> float | None:
    """Give the mean Winkler score of the 90 % intervals, in points: width, and what is missed."""
    return mean(_winkler(one) for one in some)


def _winkler(one: Miss) -> float:
    low, high = gained(one.predicted.low), gained(one.predicted.high)
    truth = gained(one.measured.mid)
    return high - low + 2 / ALPHA * (max(0.0, low - truth) + max(0.0, truth - high))


def kendall(judged: Judged) -> tuple[float | None, int]:
    """Give the mean Kendall τ-b of predicted and measured gains over cases, and their number."""
    taus = [tau for one in judged if (tau := _tau(*one)) is not None]
    return (fmean(taus) if taus else None), len(taus)


def _tau(record: Record, answer: Answer) -> float | None:
    pairs = [
        (answer.predicted[line.name].mid, line.speedup.mid)
        for line in record.lines
        if line.speedup is not None and line.name in answer.predicted
    ]
    return tau_b(pairs)


def tau_b(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Give Kendall's τ-b; ``None`` where one side does not differ at all."""
    some = [
        (_sign(a[0] - b[0]), _sign(a[1] - b[1]))
        for at, a in enumerate(pairs)
        for b in pairs[at + 1 :]
    ]
    score = sum(x * y for x, y in some)
    scale = math.sqrt(sum(x != 0 for x, _ in some) * sum(y != 0 for _, y in some))
    return score / scale if scale else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def mean(values: Iterable[float]) -> float | None:
    """Give the mean; ``None`` of nothing."""
    every = list(values)
    return fmean(every) if every else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Give the smallest value that so large a share of them does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
