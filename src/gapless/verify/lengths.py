"""How long an arm must be, how many fit into the budget, and in which order they are run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from gapless.model.edit import SetArgument
from gapless.verify.steady import Stepped
from gapless.verify.wanted import UNEDITED, Candidate, Order

LEAST_PAIRS: Final = 2  # of each side: one has no interval
_NS: Final = 1e9
_LONG_NS: Final = 4e9  # of steady steps, in an arm
_MANY: Final = 30  # steps
_SHORT_NS: Final = 1e9  # of steady steps, where time is short
_FEW: Final = 4  # steps, be they as slow as they may
_ROUNDS: Final = 3  # of workers × prefetch batches
_PERIODS: Final = 4  # of what recurs
_WARM: Final = 60  # steps of warm-up, at most; and at most half of what is measured
_SLOWER: Final = 3  # times as slow as the unedited training may a side be before it is cut short
_COMPILING_S: Final = 15.0  # and may take so much longer until it is warm
_FIRST_STEPS: Final = 1000
_FIRST_SHARE: Final = 20  # of the budget, for the steps of the first arm
_TOGETHER: Final = 3  # sides that share an unedited neighbour
_PREFETCH: Final = 2  # torch's own


@dataclass(frozen=True)
class Length:
    """How long an arm is; ``short_s``: what two pairs need, where the budget does not hold it."""

    stop: int
    seconds: float
    step_ns: float  # by which it was planned
    arm_s: float  # as the unedited one will take
    window_stop: int  # of an arm that takes a window after it
    pairs: int  # of each side, that the budget holds
    short_s: float | None = None
    tails: tuple[int, ...] = ()  # periods, in steps, that no arm is long enough for


def first(budget_s: float, steps: int | None = None) -> Order:
    """Give the arm that is discarded: it tells how long the others must be, if nobody else does."""
    return Order(UNEDITED, 0, (), steps or _FIRST_STEPS, budget_s / _FIRST_SHARE)


@dataclass(frozen=True)
class Known:
    """What the first arm told, and what is left."""

    stepped: Stepped
    step_ns: float
    beside_s: float  # of an arm: start and end
    left_s: float
    turns: bool  # the job has epoch turns
    steps: int | None = None  # of an arm, as the user wants them
    pairs: int = 3


def length(known: Known, wanted: Sequence[Candidate]) -> Length:
    """Give how long arms are, so that so many pairs of each side fit into what is left.

    Four seconds and thirty steps, three rounds of the workers, four periods of what recurs: of
    this as much as fits; four seconds or thirty steps at least. If that does not fit: one second,
    four steps and one round; then two pairs. Less than that is never enough.
    """
    counts = dict.fromkeys((max(LEAST_PAIRS, known.pairs), LEAST_PAIRS))
    ways = product(counts, (False, True))
    found = [_length(known, wanted, pairs, short=short) for pairs, short in ways]
    return next((one for one in found if one.short_s is None), found[-1])


def _length(known: Known, wanted: Sequence[Candidate], pairs: int, *, short: bool) -> Length:
    step_s = known.step_ns / _NS
    arms = pairs * sum(map(len, turn(0, names(wanted))))
    room_s = known.left_s / arms - known.beside_s
    round_ = max(known.stepped.round, *map(_round, wanted))
    rounds = _ROUNDS * round_
    enough = math.ceil(_LONG_NS / known.step_ns)
    few = max(math.ceil(_SHORT_NS / known.step_ns), _FEW)
    least = max(few, round_) if short else max(few, min(enough, _MANY), rounds)
    fits = math.floor(room_s / step_s / 1.5)  # half of it again is warm-up, at most
    steps = max(least, min(max(enough, _MANY, rounds), fits))
    for period in sorted(known.stepped.periods):
        steps = next((n * period for n in (_PERIODS, 1) if steps < n * period <= fits), steps)
    stop = steps + min(_WARM, steps // 2) + 1
    epoch = known.stepped.epoch
    if known.steps is not None:
        stop = known.steps
    elif known.turns and epoch is not None and stop < epoch + 1 < min(2 * stop, room_s / step_s):
        stop = epoch + 2
    arm_s = known.beside_s + stop * step_s
    return Length(
        stop=stop,
        seconds=_SLOWER * stop * step_s + _COMPILING_S,
        step_ns=known.step_ns,
        arm_s=arm_s,
        window_stop=min(stop, _WARM + rounds),
        pairs=pairs,
        short_s=arms * arm_s if (arms - 1) * arm_s > known.left_s else None,
        tails=tuple(sorted({one for one in known.stepped.periods if one > stop})),
    )


def _round(candidate: Candidate) -> int:
    """Give the batches of a round that a candidate's own workers make."""
    told = {
        edit.name: edit.value
        for edit in candidate.edits
        if isinstance(edit, SetArgument) and isinstance(edit.value, int)
    }
    return int(told.get("num_workers") or 0) * int(told.get("prefetch_factor") or _PREFETCH)


def names(wanted: Sequence[Candidate]) -> tuple[str, ...]:
    """Name the sides by letters from B on; after Z they are numbered."""
    letters = "BCDEFGHIJKLMNOPQRSTUVWXYZ"
    rounds = (divmod(at, len(letters)) for at in range(len(wanted)))
    return tuple(letters[at] + (str(more + 1) if more else "") for more, at in rounds)


def turn(number: int, sides: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Give the arms of one turn in order, in groups; a group's sides share its unedited arm.

    Turns are run forwards and backwards as the Thue-Morse sequence says (A B B A B A A B for one
    side), which balances drift; with every second, the sides' places move on.
    """
    if not sides:
        return ()
    moved = number // 2 % len(sides)
    placed = (*sides[moved:], *sides[:moved])
    back = bool(number.bit_count() % 2)
    groups = [(UNEDITED, *placed[at : at + _TOGETHER]) for at in range(0, len(placed), _TOGETHER)]
    return tuple(tuple(reversed(one)) if back else one for one in groups)
