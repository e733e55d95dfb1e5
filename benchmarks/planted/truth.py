"""What a planted fault costs: the script with it and without it, side by side, in short turns.

Both run on the same processors, one of them stopped (``SIGSTOP``, with all that it started) while
the other works: A B, B A, A B … A turn ends at a step, not at a time: in each pair of turns both do
the *same* steps of the training, from the same seeds, so that evaluations, ends of epochs, and
episodes that grow longer while a policy learns fall to both alike, and neighbours are compared
within seconds. The time of a side is the time in which it was not stopped; what a fault costs now
and then (an evaluation, workers that start anew) counts in full. The first pair is a rehearsal,
which says how many steps fit in a turn. On a GPU the first steps of each turn are left out: what
had been launched was finished while the host stood still.

A process of others on one of the processors makes a step of several threads many times as long,
since all wait at each barrier for the thread that was put aside. So before each pair, while both
stand still, others are waited for until they leave the processors alone. Pairs in which others took
more of them than in the calm ones are left out, whatever they measured.

A machine may stand still for some steps' time, on the side whose turn it is. A pair with such a
stop is left out (``stops.py``), by a rule that knows no side: what comes again, or at the same
steps of another start, is the training's own, and what it costs counts.

A process has a speed of its own (where its memory came to lie, say), which no number of turns
shows: the same script started twice differs by some per cent. So both are started twice or more,
and how far two starts differ, over all cases measured on a machine (``spread_of_starts``), widens
the interval of each case (``with_starts``).
"""

import contextlib
import itertools
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from benchmarks.planted.running import Arm, Live, RunError
from benchmarks.planted.steps import Stream, busy_s, foreign_s, own_time
from benchmarks.planted.stops import Turn, stopped_turns

Verdict = Literal["faulty", "sound", "undecided"]
MAX_SOUND_GAIN: Final = 0.02
MIN_FAULT_GAIN: Final = 0.05
# Two-sided 90 % quantiles of Student's t by degrees of freedom; beyond, the one before.
_T: Final[dict[int, float]] = dict(
    zip(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30),
        (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.78, 1.75, 1.72, 1.70),
        strict=True,
    )
)
_READY_STEPS: Final = 6  # steps before a side is ready …
_READY_SLOW: Final = (4, 3.0)  # … or so many, and seconds between the first and the last of them
_STARTING_S: Final = 150.0  # until a side is ready
_TURN_S: Final = {"cpu": 1.0, "cuda": 1.2}  # of the faster side
_SKIPPED_SHARE: Final = {"cpu": 0.0, "cuda": 0.25}  # of the steps of a turn, at its beginning
_STARTS: Final = 2  # of both sides
_MIN_STARTS: Final = 4  # before their spread tells that more of them are not needed
_MIN_COUNTED: Final = 10  # steps that say what one takes
_MIN_CASES: Final = 10  # pairs of starts that tell how far starts differ
_MEDIAN_OF_HALF_NORMAL: Final = 0.6745  # of standard deviation 1
_NORMAL: Final = 1.645  # its two-sided 90 % quantile
_MIN_OWN_SHARE: Final = (
    0.25  # of what starts differ by: a few that hardly do may be alike by chance
)
_MIN_PAIRS: Final = 4  # pairs
_LEAST_PAIRS: Final = 2  # that have an interval
_TARGET_PAIRS: Final = 8  # pairs within the limit: slow steps make short turns
_MAX_TURN_FACTOR: Final = 8  # times as long as expected: a turn is given up
_MIN_TURN_LIMIT_S: Final = 20.0
_MAX_EXTRA_FOREIGN: Final = 0.03  # of the processors, more than in the calm pairs: left out
_MAX_CALM_SHARE: Final = 0.05  # of the processors: others take no more when a pair begins
_WATCHED_S: Final = 0.1  # the processors, for others, before a pair


@dataclass(frozen=True)
class Truth:
    """The gain of taking the fault out: how many times as fast, with its 90 % interval."""

    low: float
    mid: float
    high: float
    verdict: Verdict
    healthy_s: tuple[float, ...]  # a step, in each pair of turns
    planted_s: tuple[float, ...]
    starts: tuple[int, ...]  # the start of both sides that each pair belongs to: 0, 1
    steps: int  # of a turn, after the first start
    left_out: int  # pairs, for what other processes took
    foreign: float  # share of the processors that others took in the median pair
    spent_s: float
    stopped: int = 0  # pairs left out since the machine stood still on one side

    def plain(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return asdict(self)


@dataclass(frozen=True)
class Limits:
    """When measuring ends: after so many pairs, or so many seconds once both sides step.

    Where steps are so slow that the fewest pairs take longer, after ``at_most`` seconds.
    """

    pairs: int
    seconds: float
    at_most: float
    starts: int = _STARTS  # of both sides; more of them tell smaller effects
    until: float = math.inf  # of time.monotonic(): no start is begun that would not end by then
    half_width: float = math.inf  # of the gain, at which neither pairs nor starts are added
    # Whether what was measured so far says enough; None: it does once half_width is reached.
    suffices: Callable[[Truth], bool] | None = None


@dataclass(frozen=True)
class Pair:
    """What a step took on either side, and the share of the processors that others took.

    The share is that of the turn in which they took more.
    """

    healthy_s: float
    planted_s: float
    foreign: float
    start: int = 0
    turn: Turn | None = None  # its steps


def spread_of_starts(truths: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the standard deviation of a start's log-ratio, from cases that were started twice.

    From the median difference of two starts (the first and the second, the third and the fourth …),
    so that some odd cases do not count; what turns vary by is part of it. ``None`` where there are
    fewer than ten such differences.
    """
    differences: list[float] = []
    for truth in truths:
        means = _means(truth)
        differences += [
            abs(later - mean) for mean, later in zip(means[::2], means[1::2], strict=False)
        ]
    if len(differences) < _MIN_CASES:
        return None
    return statistics.median(differences) / (_MEDIAN_OF_HALF_NORMAL * math.sqrt(2))


def with_starts(truth: Mapping[str, Any], spread: float | None) -> dict[str, Any]:
    """Return a kept truth, its interval widened by what a start differs from another one.

    The interval is what ``interval`` says today of the pairs that were kept, whatever it said once.
    """
    pairs = _kept_pairs(truth)
    if len(pairs) < _LEAST_PAIRS:
        return dict(truth)
    low, mid, high = interval(pairs)
    n_starts = len({pair.start for pair in pairs})
    of_starts = _NORMAL * (spread or 0.0) / math.sqrt(n_starts)
    return _around(truth, math.log(mid), math.hypot(math.log(high / low) / 2, of_starts))


def with_own_starts(
    truth: Mapping[str, Any], spread: float | None, width: float = 1.0
) -> dict[str, Any]:
    """Return a kept truth with the interval that its own starts make, ``width`` times as wide.

    Some scripts start alike each time, others differ by a tenth. Where there are fewer than four
    starts, they are taken to differ as those of all cases do.
    """
    means = _means(truth)
    if len(means) < _MIN_STARTS:
        return with_starts(truth, None if spread is None else width * spread)
    deviation = max(statistics.stdev(means), _MIN_OWN_SHARE * (spread or 0.0))
    reach = width * _t(len(means)) * deviation / math.sqrt(len(means))
    return _around(truth, statistics.mean(means), reach)


def _around(truth: Mapping[str, Any], middle: float, reach: float) -> dict[str, Any]:
    low, mid, high = (math.exp(middle + side * reach) for side in (-1, 0, 1))
    figures = {"low": low, "mid": mid, "high": high, "verdict": verdict(low, mid, high)}
    return dict(truth) | figures


def half_width(truth: Mapping[str, Any]) -> float:
    """Return half the width of a kept gain's interval, by its pairs or by its starts: the wider."""
    today = with_starts(truth, None)
    reach = math.log(today["high"] / today["low"]) / 2
    means = _means(truth)
    if len(means) > 1:
        reach = max(reach, _reach(means))
    return reach / today["mid"]


def joined(earlier: Mapping[str, Any] | None, truth: Truth) -> dict[str, Any]:
    """Return a truth as it is kept, with the pairs and starts that were measured earlier."""
    later = truth.plain()
    if earlier is None:
        return later
    sides = {side: (*earlier[side], *later[side]) for side in ("healthy_s", "planted_s")}
    first_start = max(earlier["starts"]) + 1
    starts = (*earlier["starts"], *(first_start + start for start in later["starts"]))
    low, mid, high = interval(_kept_pairs(sides | {"starts": starts}))
    sums = {name: earlier.get(name, 0) + later[name] for name in ("left_out", "spent_s", "stopped")}
    figures = {"low": low, "mid": mid, "high": high, "verdict": verdict(low, mid, high)}
    occasions = (*earlier.get("occasions", (0,)), first_start)
    return later | sides | sums | figures | {"starts": starts, "occasions": occasions}


def count_occasions(truth: Mapping[str, Any]) -> int:
    """Return on how many occasions a kept truth was measured."""
    return len(truth.get("occasions", (0,)))


def difference_of_occasions(truths: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return how far two occasions of measuring a case differ: points of a step, and their number.

    An occasion is a call that started both sides anew, minutes after the one before. How far starts
    of one occasion differ does not hold what changes between two of them. ``None`` without any.
    """
    differences: list[float] = []
    for truth in truths:
        first_starts = truth.get("occasions", ())
        if len(first_starts) > 1:
            means = _means(truth)
            # Starts of which no pair counts have no mean.
            n_earlier = sum(start < first_starts[1] for start in set(truth["starts"]))
            earlier, later = means[:n_earlier], means[n_earlier:]
            gains = [1 - math.exp(-statistics.mean(part)) for part in (earlier, later)]
            differences.append(100 * abs(gains[0] - gains[1]))
    if not differences:
        return None
    return {"points": statistics.mean(differences), "cases": len(differences)}


def _means(truth: Mapping[str, Any]) -> list[float]:
    return _means_of_starts(_kept_pairs(truth))


def _kept_pairs(truth: Mapping[str, Any]) -> list[Pair]:
    """Return the pairs of a kept truth; none where their starts were not kept."""
    starts = truth.get("starts")
    if not starts:
        return []
    rows = zip(truth["healthy_s"], truth["planted_s"], starts, strict=True)
    return [Pair(healthy_s, planted_s, 0.0, start) for healthy_s, planted_s, start in rows]


def _means_of_starts(pairs: Sequence[Pair]) -> list[float]:
    rows: dict[int, list[float]] = {}
    for pair, ratio in zip(pairs, _log_ratios(pairs), strict=True):
        rows.setdefault(pair.start, []).append(ratio)
    return [statistics.mean(rows[start]) for start in sorted(rows)]


def interval(pairs: Sequence[Pair]) -> tuple[float, float, float]:
    """Return low, middle and high of the speed-up: Student's interval of what pairs tell of it.

    Starts count alike: the middle is the mean of their means, however many pairs each has. Raises
    ``RunError`` where there are fewer than two pairs, or a side of a start took no time.
    """
    if len(pairs) < _LEAST_PAIRS:
        raise RunError(f"fewer than {_LEAST_PAIRS} pairs of turns count")
    middle = statistics.mean(_means_of_starts(pairs))
    counts = Counter(pair.start for pair in pairs).values()
    # The error of a mean of means: where starts have as many pairs each, that of all pairs.
    uneven = len(pairs) * sum(1 / count for count in counts) / len(counts) ** 2
    reach = math.sqrt(uneven) * _reach(_log_ratios(pairs))
    return math.exp(middle - reach), math.exp(middle), math.exp(middle + reach)


def _log_ratios(pairs: Sequence[Pair]) -> list[float]:
    """Return what each pair tells of the speed-up's logarithm; by start, their mean is exact.

    A speed-up is that of the mean step: what a fault costs in each eighth step counts in full, also
    where turns are shorter than that. So it is the ratio of sums, not the mean of the ratios, and
    a pair tells by how much it moves that (the delta method for a ratio of means).
    """
    sums: dict[int, tuple[float, float, int]] = {}
    for pair in pairs:
        healthy_s, planted_s, count = sums.get(pair.start, (0.0, 0.0, 0))
        sums[pair.start] = healthy_s + pair.healthy_s, planted_s + pair.planted_s, count + 1
    if any(min(healthy_s, planted_s) <= 0 for healthy_s, planted_s, _ in sums.values()):
        raise RunError("the steps of a side took no time of its own")
    values: list[float] = []
    for pair in pairs:
        healthy_s, planted_s, count = sums[pair.start]
        ratio, mean_s = planted_s / healthy_s, healthy_s / count
        values.append(math.log(ratio) + (pair.planted_s / ratio - pair.healthy_s) / mean_s)
    return values


def _reach(ratios: Sequence[float]) -> float:
    return _t(len(ratios)) * statistics.stdev(ratios) / math.sqrt(len(ratios))


def _t(count: int) -> float:
    return _T[max(key for key in _T if key < count)]


def verdict(low: float, mid: float, high: float) -> Verdict:
    """Say what an interval of speed-ups means: faulty, sound, or undecided.

    Faulty: above 2 % of a step, and 5 % in the middle; sound: within 2 % on both sides.
    """
    gains = [1 - 1 / speedup for speedup in (low, mid, high)]
    if gains[0] > MAX_SOUND_GAIN and gains[1] >= MIN_FAULT_GAIN:
        return "faulty"
    return "sound" if gains[0] >= -MAX_SOUND_GAIN and gains[2] <= MAX_SOUND_GAIN else "undecided"


def drop_disturbed(pairs: Sequence[Pair]) -> list[Pair]:
    """Leave out the pairs in which others took clearly more than in the calm ones.

    Calm is the first quarter of them: others may work beside more than half of the pairs.
    """
    shares = sorted(pair.foreign for pair in pairs)
    max_foreign = shares[len(shares) // 4] + _MAX_EXTRA_FOREIGN
    max_foreign = max(
        max_foreign, shares[min(_MIN_PAIRS, len(shares)) - 1]
    )  # the fewest that make an interval
    return [pair for pair in pairs if pair.foreign <= max_foreign]


def drop_stopped(pairs: Sequence[Pair]) -> list[Pair]:
    """Leave out the pairs in which the machine stood still on one side."""
    turns = [replace(pair.turn, start=pair.start) for pair in pairs if pair.turn is not None]
    if len(turns) < len(pairs):
        return list(pairs)
    stopped = stopped_turns(turns)
    return [pair for index, pair in enumerate(pairs) if index not in stopped]


def steps_of_a_turn(seconds: Sequence[float], turn_s: float, limit_s: float) -> int:
    """Say how many steps a turn has, by what a step takes on either side.

    The faster side works for ``turn_s`` seconds, unless too few pairs would fit in the limit.
    """
    target_steps = math.ceil(turn_s / min(seconds))
    return max(1, min(target_steps, int(limit_s / _TARGET_PAIRS / sum(seconds))))


def measure_truth(
    healthy: Callable[[], Live],
    planted: Callable[[], Live],
    on: tuple[str, contextlib.AbstractContextManager[Any]],
    limits: Limits,
) -> Truth:
    """Run both in turns until the verdict is clear, or as many pairs, or seconds, are over.

    ``on`` is the device, and what is held from the second step on: both start without it.
    Raises ``RunError`` where one of them ended before there were four pairs.
    """
    start_s = time.monotonic()
    n_starts = limits.starts
    limits = replace(limits, seconds=limits.seconds / n_starts, at_most=limits.at_most / n_starts)
    pairs, steps, printed = _measure_start(healthy, planted, on, limits)
    if len(pairs) < _MIN_PAIRS:
        raise RunError(
            f"fewer than {_MIN_PAIRS} pairs of turns were measured: {printed or 'too slow'}"
        )
    for start in range(1, n_starts):
        now_s = time.monotonic()
        if limits.suffices is not None:
            is_enough = limits.suffices(truth_of(pairs, steps, now_s - start_s))
        else:
            is_enough = start >= _MIN_STARTS and _half_width_of_pairs(pairs) <= limits.half_width
        if is_enough or now_s + (now_s - start_s) / start > limits.until:
            break
        with contextlib.suppress(RunError):  # the first start is a truth, if a wider one
            later_pairs, *_ = _measure_start(healthy, planted, on, limits)
            pairs += [replace(pair, start=start) for pair in later_pairs]
    return truth_of(pairs, steps, time.monotonic() - start_s)


def measure_step(
    live: Live, exclusive: contextlib.AbstractContextManager[Any], seconds: float
) -> Arm:
    """Return what a step takes: counted for some seconds alone, once it steps. Ends the process.

    Raises ``RunError``.
    """
    side = _Side(live)
    try:
        side.wait_begun()
        with exclusive:
            side.wait_ready()
            kind = 0 if side.stream.marks[0] else 1
            step_s = side.stream.step_s(kind)
            first_step = len(side.stream.marks[kind])
            steps = max(_MIN_COUNTED, math.ceil(seconds / step_s))
            is_done = side.work(kind, first_step + steps, max(_MIN_TURN_LIMIT_S, 2 * seconds))
        if not is_done:
            raise RunError(f"its steps could not be counted: {live.output_tail or 'too slow'}")
        own_s = side.own_s(kind, first_step, first_step + steps)
    finally:
        live.end()
    return Arm(own_s / steps, steps, ("optimizer", "backward")[kind])


def _measure_start(
    healthy: Callable[[], Live],
    planted: Callable[[], Live],
    on: tuple[str, contextlib.AbstractContextManager[Any]],
    limits: Limits,
) -> tuple[list[Pair], int, str]:
    """Start both, let them work in turns, and end them; give also what one that ended printed."""
    device, exclusive = on
    sides: list[_Side] = []
    try:
        sides.append(_Side(healthy()))
        sides.append(_Side(planted()))
        with ThreadPoolExecutor(len(sides)) as pool:
            list(pool.map(_Side.wait_begun, sides))
        with exclusive, ThreadPoolExecutor(len(sides) if device == "cpu" else 1) as pool:
            list(pool.map(_Side.wait_ready, sides))
            pairs, steps = _measure_in_turns(sides, device, limits)
        printed = " | ".join(side.live.output_tail for side in sides if side.live.has_ended)
    finally:
        for side in sides:
            side.live.end()
    return pairs, steps, printed


def truth_of(pairs: Sequence[Pair], steps: int, spent_s: float) -> Truth:
    """Return what pairs say, without those that others, or a stop of the machine, disturbed.

    Raises ``RunError`` where fewer than two are left, or a side took no time.
    """
    moving_pairs = drop_stopped(pairs)
    starts = sorted({pair.start for pair in moving_pairs})
    calm_pairs = [
        pair
        for start in starts
        for pair in drop_disturbed([pair for pair in moving_pairs if pair.start == start])
    ]
    low, mid, high = interval(calm_pairs)
    return Truth(
        *(low, mid, high, verdict(low, mid, high)),
        healthy_s=tuple(pair.healthy_s for pair in calm_pairs),
        planted_s=tuple(pair.planted_s for pair in calm_pairs),
        starts=tuple(pair.start for pair in calm_pairs),
        steps=steps,
        left_out=len(moving_pairs) - len(calm_pairs),
        foreign=statistics.median(pair.foreign for pair in pairs),
        spent_s=spent_s,
        stopped=len(pairs) - len(moving_pairs),
    )


def _measure_in_turns(
    sides: "Sequence[_Side]", device: str, limits: Limits
) -> tuple[list[Pair], int]:
    """Let both work in turns; give the pairs, and how many steps a turn had."""
    kind = 0 if all(side.stream.marks[0] for side in sides) else 1
    first_step = max(len(side.stream.marks[kind]) for side in sides)
    expected_s = [side.stream.step_s(kind) for side in sides]
    calm = _CalmWait(sides[0].live.cores, limits.seconds)
    start_s = time.monotonic()
    waited_s = calm.wait(start_s + limits.at_most - limits.seconds)
    rehearsal_steps = steps_of_a_turn(expected_s, _TURN_S[device], limits.seconds)
    if not _work_turns(
        sides,
        kind,
        first_step + rehearsal_steps,
        [step_s * rehearsal_steps for step_s in expected_s],
    ):
        return [], rehearsal_steps
    expected_s = [
        side.own_s(kind, first_step, first_step + rehearsal_steps) / rehearsal_steps
        for side in sides
    ]
    steps = steps_of_a_turn(expected_s, _TURN_S[device], limits.seconds)
    least_s = (_MIN_PAIRS + 1) * steps * sum(expected_s)
    until = start_s + min(waited_s + max(limits.seconds, least_s), limits.at_most)
    pairs: list[Pair] = []
    looks: list[Verdict] = []
    while (
        _count_undisturbed(pairs) < limits.pairs
        and time.monotonic() + steps * sum(expected_s)
        <= until + (least_s if len(pairs) < _MIN_PAIRS else 0.0)  # what is measured is not lost
    ):
        waited_s = calm.wait(start_s + limits.at_most - least_s)
        until = min(until + waited_s, start_s + limits.at_most)
        order = sides if len(pairs) % 2 else sides[::-1]
        begin_step = first_step + rehearsal_steps + len(pairs) * steps
        if not _work_turns(
            order, kind, begin_step + steps, [step_s * steps for step_s in expected_s]
        ):
            break
        n_skipped = int(_SKIPPED_SHARE[device] * steps)
        pairs.append(_pair(sides, kind, (begin_step + n_skipped, begin_step + steps)))
        looks.append(_verdict_so_far(pairs))
        is_clear = len(looks) > 1 and looks[-1] == looks[-2] != "undecided"
        if is_clear and _half_width_of_pairs(pairs) <= limits.half_width:
            break
    return pairs, steps


def _count_undisturbed(pairs: Sequence[Pair]) -> int:
    return len(drop_disturbed(pairs)) if pairs else 0


def _half_width_of_pairs(pairs: Sequence[Pair]) -> float:
    return half_width(truth_of(pairs, 0, 0.0).plain()) if len(pairs) >= _MIN_PAIRS else math.inf


def _verdict_so_far(pairs: Sequence[Pair]) -> Verdict:
    return "undecided" if len(pairs) < _MIN_PAIRS else verdict(*interval(drop_disturbed(pairs)))


def _work_turns(
    sides: "Sequence[_Side]", kind: int, until: int, expected_s: Sequence[float]
) -> bool:
    """Let one after the other work up to a step; tell whether both came there."""
    longest = max(_MIN_TURN_LIMIT_S, _MAX_TURN_FACTOR * max(expected_s))
    return all(side.work(kind, until, longest) for side in sides)


def _pair(sides: "Sequence[_Side]", kind: int, steps: tuple[int, int]) -> Pair:
    first, second = (tuple(side.own_steps(kind, *steps)) for side in sides)
    foreign = max(side.foreign for side in sides)
    turn = Turn(0, steps[0], (first, second))
    return Pair(statistics.fmean(first), statistics.fmean(second), foreign, turn=turn)


class _CalmWait:
    """Waits, while both sides stand still, until others leave the processors alone."""

    def __init__(self, cores: Sequence[int], patience_s: float) -> None:
        self.cores = cores
        self.patience_s = patience_s  # left, for all pairs: some machines are never calm

    def wait(self, until: float) -> float:
        """Wait, no later than a time and no longer than patience lasts; give how long it took."""
        start_s = time.monotonic()
        until = min(until, start_s + self.patience_s)
        while time.monotonic() < until and self._share() > _MAX_CALM_SHARE:
            pass
        waited_s = time.monotonic() - start_s
        self.patience_s -= waited_s
        return waited_s

    def _share(self) -> float:
        busy, begin = busy_s(self.cores), time.perf_counter()
        time.sleep(_WATCHED_S)
        available_s = (time.perf_counter() - begin) * (len(self.cores) or os.cpu_count() or 1)
        return (busy_s(self.cores) - busy) / available_s


class _Side:
    """One of the two: its process, its steps, and when it was not stopped."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.stream = Stream(live.stream)
        self.blocks: list[tuple[float, float]] = []
        self.foreign = 0.0  # share of the processors that others took in the last turn

    def wait_begun(self) -> None:
        """Wait for its first step, and stop it: on a GPU others measure. Raises ``RunError``."""
        self._wait_stepped(1, (1, 0.0))

    def wait_ready(self) -> None:
        """Let it go on until its steps take their usual time, and stop it. Raises ``RunError``."""
        self.live.resume()
        self._wait_stepped(_READY_STEPS, _READY_SLOW)

    def _wait_stepped(self, min_steps: int, slow: tuple[int, float]) -> None:
        until = time.monotonic() + _STARTING_S
        begin = time.perf_counter()
        while not self.stream.has_stepped(min_steps, slow):
            if self.live.has_ended:
                raise RunError(f"it ended before it stepped: {self.live.output_tail}")
            if time.monotonic() > until:
                raise RunError(f"it did not step in time: {self.live.output_tail}")
            time.sleep(0.02)
        self.live.stop()
        self.blocks.append((begin, time.perf_counter()))
        time.sleep(0.02)  # what was under way when the signal came
        self.stream.refresh()

    def work(self, kind: int, until: int, longest_s: float) -> bool:
        """Let it work until it has done so many steps; tell whether it did."""
        foreign_before_s = foreign_s(self.live.pid, self.live.cores)
        begin = time.perf_counter()
        self.live.resume()
        while self.stream.refresh(kind) <= until and time.perf_counter() < begin + longest_s:
            if self.live.has_ended:
                return False
            time.sleep(0.004)
        self.live.stop()
        self.blocks.append((begin, time.perf_counter()))
        available_s = (time.perf_counter() - begin) * (len(self.live.cores) or os.cpu_count() or 1)
        self.foreign = (foreign_s(self.live.pid, self.live.cores) - foreign_before_s) / available_s
        return len(self.stream.marks[kind]) > until

    def own_s(self, kind: int, first_step: int, last_step: int) -> float:
        """Return the time of its own between two steps."""
        return sum(self.own_steps(kind, first_step, last_step))

    def own_steps(self, kind: int, first_step: int, last_step: int) -> list[float]:
        """Return the time of its own in each step from one to another."""
        ends = own_time(self.stream.marks[kind][first_step : last_step + 1], self.blocks)
        return [end - begin for begin, end in itertools.pairwise(ends)]
