"""When windows open and how many steps they hold.

One process: the first window opens at the first steady step, but 1.5 s after the first step
whatever they are; the later ones at doubling distances. Several ranks: at numbers of steps, so that
all open theirs at the same step; where time decides, the first that comes to such a step decides
for all of its host (``agreeing``).
A *probe* of one step comes first: it is not kept. It pays for the first start of the profiler, and
tells how many events a step makes.
All that comes behind the first window waits until all windows together, with the time that steps
take longer in them, cost at most a twentieth of the first minute, and a fiftieth of a longer run.
Windows of long steps are short: what starting and stopping a profiler makes longer is little of
such a step. Where every so many steps one is far longer than the others, one window is put around
such a step, if none has held one.
A window lasts until its device has done the steps that were planned, or so many more have passed.
"""

from __future__ import annotations

from typing import Any

from .rhythm import AHEAD, Rhythm

PROBE, WINDOW, STACKS = "probe", "window", "stacks"
EARLIEST, LATEST = 5, 20  # steps seen before the first window
STEADY = 3  # successive steps that differ by at most a tenth
LONG_NS = 1_000_000_000  # a step of which few are waited for
EARLIEST_LONG = 3  # steps before the first window in any case: the first of all makes things ready
EARLIEST_SEEN = 2  # and edges: between two lies a step
SOON_NS = 1_500_000_000  # after the first step: from then on no window waits for steady steps
LASTS_NS = 20_000_000_000  # a window of long steps, if it has whole steps enough by then
STACKS_LAST_NS = 5_000_000_000  # likewise with stacks
MIN_WINDOW_STEPS = 3  # whole steps; fewer explain nothing
MIN_HEAVY_STEPS = 2  # of a first window that would hold the training for a second
MIN_REPLAY = 4  # whole steps that a replay needs: so many even where they take more than MEMORY
REST_STEPS = 2  # steps between two windows in a row: the first after a stop is slow
REST_LONG_STEPS = 1  # and where steps are long: what is slow is little of one
UNHURRIED_NS = 200_000_000
AGAIN, AGAIN_LONG = 10, 1  # steps after a probe that failed
SHARE, SHARE_EARLY = 50, 20  # of the run, one part is what windows may cost; of its first minute
EARLY_NS = 60_000_000_000
POSTPONED = 2  # times the step, for ranks whose window has to wait
MEMORY = 46 << 20  # bytes that the events of a window may take in the training's process
EVENT_BYTES = 4_000  # of one, when the profiler has stopped; torch 2.13: 2,200 to 4,100 were seen
STACKS_EVENTS = 50_000  # of one step
STACKS_FACTOR = 10  # with stacks it makes up to so many times as many
STACKS_USUAL = 2  # and as a rule
HOPELESS = 1_000_000  # events of one step: three would hold the training for a minute
SLOW_NS = 1_000_000_000  # stopping and saving that took longer makes the next windows shorter
MAX_FAILURES = 5
NEVER = 1 << 62  # a step
RANKS_PROBE, RANKS_FIRST, RANKS_FACTOR = 8, 12, 4
BEHIND = 2  # times the events of a window: while its device is behind, so many more
BEHIND_LEAST, RANKS_BEHIND = 2, 8  # steps


class WindowPlan:
    """What to open after which step."""

    def __init__(self, options: dict[str, Any], world: int) -> None:
        self.window_steps = max(1, int(options.get("window_steps") or 6))
        self.every = options.get("every")
        self.most = int(options.get("most_windows", 6))
        self.most_events = int(options.get("events") or 100_000)
        self.events = min(self.most_events, MEMORY // EVENT_BYTES)
        self.ranks = world > 1
        self.next: str | None = PROBE if self.most > 0 else None
        self.at = RANKS_PROBE if self.ranks else EARLIEST  # no earlier than after this step
        self.seen = 0
        self.step = -1  # the last one
        self.last = 0
        self.recent: list[int] = []  # lengths of the last steps
        self.per_step: int | None = None
        self.per_stop = 0
        self.limit = self.window_steps
        self.kept = self.failures = self.broken = self.spent = self.first_at = 0
        self.begun = 0  # when the first window opened
        self.settled = 0  # of ranks: the step at which the last window is closed in all of them
        self.stacks_due = True
        self.since = 0  # when the first step ended
        self.expected = 0  # what the next window costs, as the last one did
        self.asked = False  # somebody wants the next window, whatever it costs
        self.free = bool(self.every or options.get("check") or options.get("any_cost"))
        self.rhythm = Rhythm()

    def edge(self, step: int, end_ns: int) -> str | None:
        """Return what is to be opened after this step; usually nothing."""
        if self.last and step == self.step + 1:  # else windows were between
            self.recent = [*self.recent[1 - STEADY :], end_ns - self.last]
            self.rhythm.add(step, end_ns - self.last)
        self.last, self.step = end_ns, step
        self.since = self.since or end_ns
        self.seen += 1
        waits = step < self.at and not self._is_early(step, end_ns)
        if waits or self.next is None or self.broken >= MAX_FAILURES:
            return None
        if self.ranks:
            return self.next
        if self.next is PROBE and not self._is_steady(end_ns):
            return None
        has_aim = self.asked or self._aims(step)
        return self.next if self.affords(step, end_ns) and has_aim else None

    def affords(self, step: int, end_ns: int) -> bool:
        """Return whether the next window may open after a step; the first always may."""
        if self.next is PROBE and self.ranks:
            return step >= RANKS_PROBE or self._is_late(end_ns)
        if self.free or self.asked or not self.kept:
            return True
        elapsed_ns = end_ns - self.since
        room = max(min(elapsed_ns, EARLY_NS) // SHARE_EARLY, elapsed_ns // SHARE)
        return self.spent + self.expected * (STACKS_USUAL if self.next is STACKS else 1) <= room

    def postpone(self, step: int) -> None:
        """Try again later: of ranks the next window is not opened after this step."""
        self.at = step + 1 if self.next is PROBE else POSTPONED * step

    def lacks(self, step: int) -> bool:
        """Return whether steps of a kind that no window held come soon: one is wanted then."""
        soon = self.next is WINDOW and not self.ranks and self.rhythm.passed_ns() < LASTS_NS
        return soon and self._ahead(step) is not None

    def advance(self, step: int) -> None:
        """Open the next window as soon as it holds what the others lack."""
        self.at = min(self.at, step)

    def _ahead(self, step: int) -> int | None:
        return self.rhythm.ahead(step, self.most_events / max(1, self.per_step or 1))

    def _aims(self, step: int) -> bool:
        """Return whether a window that opens now holds a step of the kind that was not seen yet."""
        ahead = self._ahead(step) if self.next is WINDOW and self.kept else None
        return ahead is None or ahead == AHEAD

    def _is_late(self, end_ns: int) -> bool:
        """Return whether time enough has passed; steps before it was known what ends them count."""
        if self.seen < EARLIEST_SEEN:
            return False
        return (end_ns - self.since) * max(1.0, self.step / (self.seen - 1)) >= SOON_NS

    def ask(self, step: int) -> None:
        """Open a window after this step, beyond those that are planned: somebody asks for it.

        The probe, and windows of a trial, come when they come.
        """
        if self.next is not PROBE and self.at < NEVER:
            self.most += 0 if self.asked else 1
            self.next, self.at, self.asked = WINDOW, step, True

    def hold(self) -> None:
        """Open nothing until ``one``."""
        self.at = NEVER

    def plan_single(self, step: int) -> None:
        """Open one window after this step or a later one, and none with stacks."""
        self.at, self.most, self.stacks_due = step, 1, False

    def _is_early(self, step: int, end_ns: int) -> bool:
        """Return whether the probe may open before its step; of ranks that is asked each time."""
        is_first = self.next is PROBE and not self.begun and self.at < NEVER
        soon = self.ranks or self._long_step_ns() is not None or self._is_late(end_ns)
        return is_first and step >= EARLIEST_LONG and soon

    def _long_step_ns(self) -> int | None:
        """Return how long the last steps took, if they were long; ranks do not look at times."""
        if self.ranks or len(self.recent) < STEADY - 1 or min(self.recent) < LONG_NS:
            return None
        return max(self.recent)

    def usual(self) -> int:
        """Return how long a step takes that no window touches; 0: not known."""
        return sorted(self.recent)[len(self.recent) // 2] if self.recent else 0

    def _pause_steps(self) -> int:
        return REST_STEPS if self.ranks or self.usual() < UNHURRIED_NS else REST_LONG_STEPS

    def _steps_in(self, time_ns: int, max_steps: int) -> int:
        """Return how many steps such a time holds if they are long, else ``most``."""
        long = self._long_step_ns()
        return max_steps if long is None else min(max_steps, time_ns // long)

    def _is_steady(self, end_ns: int) -> bool:
        if self.seen >= LATEST or self._long_step_ns() is not None or self._is_late(end_ns):
            return True
        is_too_early = self.seen < EARLIEST or len(self.recent) < STEADY
        return not is_too_early and max(self.recent) * 10 <= min(self.recent) * 11

    def steps(self, kind: str) -> int:
        """Return how many whole steps such a window is to hold."""
        if kind is PROBE:
            return 1
        per_step = max(1, self.per_step or 1)
        if kind is STACKS:
            if per_step * STACKS_FACTOR * MIN_WINDOW_STEPS <= self.events:
                return max(1, self._steps_in(STACKS_LAST_NS, MIN_WINDOW_STEPS))
            return (
                2
                if per_step * STACKS_USUAL * 2 <= self.events and self._long_step_ns() is None
                else 1
            )
        floor = MIN_REPLAY if per_step * MIN_REPLAY <= self.most_events else MIN_WINDOW_STEPS
        cap = max(MIN_REPLAY, self._steps_in(LASTS_NS, self.window_steps))
        if not self.free and not self.kept:
            cap = min(cap, max(MIN_HEAVY_STEPS, SLOW_NS // max(1, self.per_stop)))
        return min(self.window_steps, self.limit, cap, max(floor, self.events // per_step))

    def extra_steps(self, kind: str) -> int:
        """Return how many more steps such a window may last that waits for its device.

        A device is a thousand launches behind at most. Of ranks it is a number known beforehand.
        """
        if self.ranks:
            return RANKS_BEHIND
        return max(BEHIND_LEAST, BEHIND * self.events // max(1, self.events_of(kind, 1)))

    def events_of(self, kind: str, steps: int) -> int:
        """Estimate the events of a window of so many steps."""
        return (self.per_step or 0) * steps * (STACKS_FACTOR if kind is STACKS else 1)

    def note_probe(self, step: int, events: int, cost: int, stop: int = 0) -> str | None:
        """Learn from the probe; return why there will be no windows, if so.

        To stop it took ``stop`` ns: so much longer each step makes the first window's.
        """
        self.broken = 0
        self.per_step, self.per_stop = events, stop
        self.spent += cost
        if events > HOPELESS:
            self.next = None
            return f"one step makes {events} events, too many to record"
        # Of several ranks it lasted one step in all of them: "step" ended it.
        self.expected = cost
        pause = RANKS_FIRST - RANKS_PROBE - 1 if self.ranks else self._pause_steps()
        self.next, self.at = WINDOW, step + pause
        return None

    def note_opened(self, step: int, start_ns: int) -> None:
        """Note that a window was opened: later ones are planned from the first."""
        self.broken, self.at = self.broken + 1, step + AGAIN  # until it is known how it ended
        self.asked = False
        if not self.begun:
            self.begun = start_ns
        if self.next is WINDOW and not self.first_at:
            self.first_at = step

    def note_kept(self, step: int, steps: int, stop: int, cost: int) -> None:
        """Plan what follows a window that was kept; stopping and saving took ``stop`` ns."""
        self.broken = 0
        self.spent += cost
        self.expected = cost
        if self.next is WINDOW:
            self.rhythm.window(step - steps + 1, step)
        self._settle(step)
        if stop > SLOW_NS:
            self.limit = max(MIN_WINDOW_STEPS, steps * SLOW_NS // stop)
        if self.next is STACKS:
            self.stacks_due = False
        else:
            self.kept += 1
        self._plan_after(step)

    def note_cost(self, cost: int) -> None:
        """Note what a window cost the training after it was closed."""
        self.spent += cost

    def note_failure(self, step: int, cost: int) -> str | None:
        """Plan what follows a window that was not kept; return why there will be none, if so."""
        self.broken = 0
        self.spent += cost
        self.failures += 1
        self._settle(step)
        if self.failures >= MAX_FAILURES:
            self.next = None
            return f"{self.failures} windows were cut short"
        if self.next is STACKS:
            self.stacks_due = False
        if self.next is PROBE:
            self.at = step + (AGAIN if self._long_step_ns() is None else AGAIN_LONG)
        elif self.next is WINDOW and not self.kept and not self.ranks:
            # What cut it ended an epoch, as a rule: now there is room.
            self.at = step + self._pause_steps()
        else:
            self._plan_after(step)
        return None

    def _settle(self, step: int) -> None:
        """Note when a window that was planned to end at a step is closed in all ranks."""
        self.settled = step + RANKS_BEHIND

    def without_stacks(self, step: int) -> None:
        """Go on without the window with stacks."""
        self.stacks_due = False
        self._plan_after(step)

    def _plan_after(self, step: int) -> None:
        self.stacks_due = self.stacks_due and (self.per_step or 0) <= STACKS_EVENTS
        if self.kept and self.stacks_due:
            self.next = STACKS
            self.at = step + (RANKS_BEHIND + REST_STEPS + 2 if self.ranks else self._pause_steps())
            return
        self.next = WINDOW if self.kept < self.most else None
        self.at = self._position(step)

    def _position(self, step: int) -> int:
        """Return the next planned step: every so many, at doubling, for ranks at fourfold steps."""
        next_step = max(1, self.first_at)
        if self.every:
            late = RANKS_BEHIND if self.ranks else 0
            period = max(int(self.every), self.window_steps + late + REST_STEPS)
            return next_step + period * max(1, -(-(step + late + REST_STEPS - next_step) // period))
        if not self.ranks:
            return max(2 * step, step + 10)
        while next_step < step + max(self.window_steps, RANKS_BEHIND) + REST_STEPS:
            next_step *= RANKS_FACTOR
        return next_step
