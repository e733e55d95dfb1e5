"""The loop of a trial: which arm is run next, until the intervals are narrow or time is over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gapless.errors import GaplessError
from gapless.model.trial import Trial
from gapless.verify import disturbance, lengths, reach
from gapless.verify.budget import enough, spoken, step_ns, too_short
from gapless.verify.disturbance import DISTURBED, disturbed, hopeless
from gapless.verify.judging import judged
from gapless.verify.lengths import Known, Length
from gapless.verify.steady import Stepped, stepped
from gapless.verify.taken import Standing, Taken, standing
from gapless.verify.wanted import (
    OUT_OF_MEMORY,
    UNEDITED,
    Candidate,
    Order,
    Ran,
    RunArm,
    TrialSettings,
)

ON_DEVICE: Final = "steps are timed on the device: the host may run ahead of it"
INTERRUPTED: Final = "interrupted: judged by what had been measured until then"
_NS: Final = 1e-9
_FASTER: Final = 2.0  # times as fast as the first arm: others must be longer than it said
_TURN: Final = 1000  # groups of a turn, at most

Say = Callable[[str], None]


def conduct(
    wanted: tuple[Candidate, ...],
    settings: TrialSettings,
    run_arm: RunArm,
    say: Say,
    first: Ran | None = None,
) -> Trial:
    """Run arms in turns until each candidate is decided or the budget is spent; give the trial.

    ``run_arm`` runs one; ``first`` is the discarded one, if it was run already. Ctrl-C ends
    the trial: what was measured so far is judged, if a side has an interval. Raises
    ``UsageError`` where the first arm shows that the budget does not hold two pairs of arms, and
    may not grow so far; ``GaplessError`` where it failed.
    """
    begun = settings.clock() if settings.begun is None else settings.begun
    sides = dict(zip(lengths.names(wanted), wanted, strict=True))
    course = _Course(settings, sides, run_arm, say, begun, [], [], [settings.budget_s])
    try:
        _run(course, first)
    except KeyboardInterrupt:
        course.notes.append(INTERRUPTED)
        if not any(course.now.pairs(side) for side in sides):
            raise  # nothing can be compared yet
    found = standing(course.taken)
    course.notes.extend([ON_DEVICE] * found.on_device)
    course.notes.extend(disturbance.told(found))
    return judged(found, sides, settings, course.notes, settings.clock() - begun)


@dataclass(frozen=True)
class _Course:
    """A trial under way: what is asked for, and what was run so far."""

    settings: TrialSettings
    sides: dict[str, Candidate]
    run_arm: RunArm
    say: Say
    begun: float
    taken: list[Taken]
    notes: list[str]
    budgets: list[float]  # the last one holds
    hidden: set[str] = field(default_factory=set[str])  # sides whose gain the noise would hide

    @property
    def budget_s(self) -> float:
        return self.budgets[-1]

    @property
    def spent_s(self) -> float:
        return self.settings.clock() - self.begun

    @property
    def left_s(self) -> float:
        return self.budget_s - self.spent_s

    @property
    def now(self) -> Standing:
        return standing(self.taken)

    def open(self) -> tuple[str, ...]:
        """Give the sides that need more arms."""
        now, pairs = self.now, self.settings.pairs
        return tuple(
            name
            for name, one in self.sides.items()
            if name not in self.hidden and not now.over(name, one, pairs)
        )


def _run(course: _Course, first: Ran | None) -> None:
    planned = _first(course, first) if course.sides else None
    planned = planned and _turns(course, planned)
    if planned is not None and course.settings.windows:
        _windows(course, planned)


# ── The first arm, and how long the others are ──────────────────────────────────────────────────


def _first(course: _Course, first: Ran | None) -> Length:
    """Run the arm that is discarded; give how long the others are."""
    order = lengths.first(course.settings.budget_s, course.settings.steps)
    before = course.settings.clock()
    if first is None:
        course.say("first arm, not counted: how long a start and a step take")
        first = course.run_arm(order)
    one = _taken(order, None, first, course.settings.clock() - before)
    course.taken.append(replace(one, failed=one.broken or "discarded: the first"))
    if one.stepped is None or one.broken is not None:
        folder = "" if first.recording is None else f" (its records: {first.recording.path})"
        raise GaplessError(f"the unedited training could not be measured: {one.broken}{folder}")
    return _checked(course, one)


def _taken(order: Order, turn: int | None, ran: Ran, took_s: float) -> Taken:
    steps = None if ran.recording is None else stepped(ran.recording)
    one = Taken(order, turn, ran, steps, None, took_s)
    return replace(one, failed=one.broken)


def _planned(course: _Course, steps: Stepped, took_s: float) -> Length:
    stepping_s = float(steps.ends[-1] - steps.ends[0]) * _NS
    start_s = (steps.start_ns + (steps.exit_ns or 0)) * _NS
    job = course.settings.job
    known = Known(
        stepped=steps,
        step_ns=step_ns(steps),
        beside_s=max(took_s - stepping_s, start_s),
        left_s=course.left_s,
        turns=job is not None and job.turns > 0,
        steps=course.settings.steps,
        pairs=course.settings.pairs,
    )
    return lengths.length(known, tuple(course.sides.values()))


def _checked(course: _Course, known: Taken) -> Length:
    """Plan arms by one that is known, and say plainly what does not fit.

    Raises ``UsageError`` where two pairs do not, and the budget may not grow so far.
    """
    if known.stepped is None:
        msg = "an arm by which others are planned has steps"
        raise AssertionError(msg)
    found = _planned(course, known.stepped, known.took_s)
    if found.short_s is not None:
        needed_s = course.spent_s + found.short_s
        if enough(needed_s) > (course.settings.most_s or 0.0) or len(course.budgets) > 1:
            raise too_short(needed_s, course.budget_s)
        course.budgets.append(enough(needed_s))
        course.say(f"starts and steps are slow: the budget is now {spoken(course.budget_s)}")
        return _checked(course, known)
    if found.pairs < course.settings.pairs:
        course.notes.append(
            f"the budget of {spoken(course.budget_s)} holds {found.pairs} pairs of arms: "
            "intervals are wide"
        )
    course.notes.extend(
        f"what recurs every {period} steps lies beyond the {found.stop} steps of an arm"
        for period in found.tails
    )
    return found


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────


def _turns(course: _Course, planned: Length, *, anew: bool = True) -> Length | None:
    """Run turns until all sides are decided or time is over; ``None`` if unedited arms fail.

    If the first arm that counts is twice as fast as the discarded one was, which filled caches,
    arms are planned ``anew``, longer.
    """
    number = 0
    while sides := course.open():
        for at, arms in enumerate(lengths.turn(number, sides)):
            if not _fits(course, planned, arms, planned.arm_s):
                return planned
            for side in arms:
                one = _arm(course, planned, side, _TURN * number + at)
                if course.now.lost(UNEDITED):
                    course.notes.append(f"unedited arms failed: {one.broken}")
                    return None
                if anew and one.stepped and step_ns(one.stepped) < planned.step_ns / _FASTER:
                    course.taken[-1] = replace(one, failed="discarded: the first was slower")
                    return _turns(course, _checked(course, one), anew=False)
                anew = False
        number += 1
        _give_up(course, planned)
    return planned


def _give_up(course: _Course, planned: Length) -> None:
    """Take no more arms of sides that the noise so far will hide for as long as time is left."""
    now, sides = course.now, course.open()
    turn_s = sum(now.arm_s(side, planned.arm_s) for side in (UNEDITED, *sides))
    judged_by_verdict = [name for name in sides if course.sides[name].resolve is None]
    hidden = reach.hidden(now, judged_by_verdict, int(course.left_s / turn_s))
    if hidden:
        course.hidden.update(hidden)
        course.notes.append(reach.explained(hidden, len(now.counted), course.budget_s))


def _fits(course: _Course, planned: Length, arms: Sequence[str], over_s: float = 0.0) -> bool:
    """Tell whether some arms fit into the budget; once there are pairs enough, windows must, too.

    Until then they may take ``over_s`` more: those before have perhaps taken a little longer.
    """
    now = course.now
    needed = sum(now.arm_s(side, planned.arm_s) for side in arms)
    live = [side for side in course.sides if not now.lost(side)]
    if any(len(now.pairs(side)) < planned.pairs for side in live):
        return needed <= course.left_s + over_s
    if course.settings.windows:
        needed += sum(now.arm_s(side, planned.arm_s) for side in (UNEDITED, *live))
    return needed <= course.left_s


def _arm(course: _Course, planned: Length, side: str, turn: int) -> Taken:
    """Run an arm, once more if it failed or was disturbed; the second time it counts."""
    one = _attempt(course, planned, side, turn)
    why = one.broken or disturbed(course.now, one)
    if why is None or one.broken == OUT_OF_MEMORY or not _fits(course, planned, (side,)):
        return one
    if one.broken is None:
        if hopeless(course.taken[:-1]) or not _spares(course, planned, side):
            return one
        course.taken[-1] = replace(one, failed=f"{DISTURBED}{why}")
    return _attempt(course, planned, side, turn)


def _spares(course: _Course, planned: Length, side: str) -> bool:
    """Tell whether an arm can be repeated and the pairs that are wanted are still run."""
    return _missing_s(course, planned) + course.now.arm_s(side, planned.arm_s) <= course.left_s


def _missing_s(course: _Course, planned: Length) -> float:
    """Give what the turns take that are still needed."""
    now = course.now
    missing = max((planned.pairs - len(now.pairs(side)) for side in course.open()), default=0)
    live = [side for side in (UNEDITED, *course.sides) if not now.lost(side)]
    return max(0, missing) * sum(now.arm_s(side, planned.arm_s) for side in live)


def _attempt(course: _Course, planned: Length, side: str, turn: int | None) -> Taken:
    """Run an arm; without a turn it is one that takes a window."""
    edits = course.sides[side].edits if side in course.sides else ()
    window = turn is None
    stop = planned.window_stop if window else planned.stop
    order = Order(side, len(course.taken), edits, stop, planned.seconds, window)
    course.say(_sentence(course, planned, order))
    before = course.settings.clock()
    ran = course.run_arm(order)
    course.taken.append(_taken(order, turn, ran, course.settings.clock() - before))
    return course.taken[-1]


def _windows(course: _Course, planned: Length) -> None:
    """Run an arm more of each side that was measured, which takes a window."""
    now = course.now
    run = [side for side in (UNEDITED, *course.sides) if now.of(side)]
    cost = {side: now.arm_s(side, planned.arm_s) for side in run}
    fits = sum(cost.values()) <= course.left_s
    if not fits:
        course.notes.append("no time was left for windows: there are no accounts to compare")
    for side in cost if fits else ():
        one = _attempt(course, planned, side, None)
        course.taken[-1] = replace(one, failed=one.broken or "window")


# ── Progress ────────────────────────────────────────────────────────────────────────────────────


def _sentence(course: _Course, planned: Length, order: Order) -> str:
    """Say which arm begins, and how long the trial still takes."""
    name = "unedited" if order.side == UNEDITED else course.sides[order.side].summary
    missing_s = least = _missing_s(course, planned)
    if course.settings.windows:
        now = course.now
        least += sum(now.arm_s(side, planned.arm_s) for side in (UNEDITED, *course.sides))
    left = (
        f"at most {spoken(course.left_s)} left"
        if least > course.left_s or not missing_s
        else f"about {spoken(least)} left, {spoken(course.left_s)} at most"
    )
    return f"arm {order.order + 1} · {left} · {'window, ' * order.window}{order.side}, {name}"
