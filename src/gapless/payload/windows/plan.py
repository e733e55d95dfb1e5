"""When windows open and how many steps they hold.

One process: the first window opens at the first steady step, the later ones at doubling distances
and never so early that all windows together cost more than a fiftieth of the run. Several ranks:
by step numbers alone, so that all open theirs at the same step without a word between them.
A *probe* of one step comes first: it is not kept. It pays for the first start of the profiler, and
tells how many events a step makes.
Steps of a second and more are not waited for until they are steady, and windows of them are short:
what starting and stopping a profiler makes longer is little of such a step.
A window lasts until its device has done the steps that were planned, or so many more have passed.
"""

from __future__ import annotations

from typing import Any

PROBE, WINDOW, STACKS = "probe", "window", "stacks"
EARLIEST, LATEST = 5, 20  # steps seen before the first window
STEADY = 3  # successive steps that differ by at most a tenth
LONG_NS = 1_000_000_000  # a step of which few are waited for
EARLIEST_LONG = 3  # such steps seen before the first window: the first of all has made things ready
LASTS_NS = 20_000_000_000  # a window of long steps, if it has whole steps enough by then
STACKS_LAST_NS = 5_000_000_000  # likewise with stacks
LEAST = 3  # whole steps; fewer explain nothing
USEFUL = 4  # whole steps that a replay needs: so many even where they take more than MEMORY
REST = 2  # steps between two windows in a row: the first after a stop is slow
REST_LONG = 1
AGAIN, AGAIN_LONG = 10, 1  # steps after a probe that failed
SHARE = 50  # of the run, one part is what windows may cost
MEMORY = 46 << 20  # bytes that the events of a window may take in the training's process
EVENT_BYTES = 4_000  # of one, when the profiler has stopped; torch 2.13: 2,200 to 4,100 were seen
STACKS_EVENTS = 50_000  # of one step
STACKS_FACTOR = 10  # with stacks it makes up to so many times as many
STACKS_USUAL = 2  # and as a rule
HOPELESS = 1_000_000  # events of one step: three would hold the training for a minute
SLOW_NS = 1_000_000_000  # stopping and saving that took longer makes the next windows shorter
MOST_FAILURES = 5
NEVER = 1 << 62  # a step
RANKS_PROBE, RANKS_FIRST, RANKS_FACTOR = 8, 12, 4
BEHIND = 2  # times the events of a window: while its device is behind, so many more
BEHIND_LEAST, RANKS_BEHIND = 2, 8  # steps


class Plan:
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
        self.not_before = 0  # nor than this time
        self.seen = 0
        self.last = 0
        self.recent: list[int] = []  # lengths of the last steps
        self.per_step: int | None = None
        self.limit = self.window_steps
        self.kept = self.failures = self.spent = self.first_at = 0
        self.begun = 0  # when the first window opened
        self.settled = 0  # of ranks: the step at which the last window is closed in all of them
        self.stacks_due = True

    def edge(self, step: int, at: int) -> str | None:
        """Give what is to be opened after this step, which ended ``at``; usually nothing."""
        if self.last:
            self.recent = [*self.recent[1 - STEADY :], at - self.last]
        self.last = at
        self.seen += 1
        if self.next is None or at < self.not_before:
            return None
        if step < self.at and not self._early(step):
            return None
        if self.next is PROBE and not self.ranks and not self._steady():
            return None
        return self.next

    def hold(self) -> None:
        """Open nothing until ``one``."""
        self.at = NEVER

    def one(self, step: int) -> None:
        """Open one window after this step or a later one, and none with stacks."""
        self.at, self.not_before, self.most, self.stacks_due = step, 0, 1, False

    def _early(self, step: int) -> bool:
        first = self.next is PROBE and not self.begun and self.at < NEVER
        return first and step >= EARLIEST_LONG and self._long() is not None

    def _long(self) -> int | None:
        """Give how long the last steps took, if they were long; ranks do not look at times."""
        if self.ranks or len(self.recent) < STEADY - 1 or min(self.recent) < LONG_NS:
            return None
        return max(self.recent)

    def _rest(self) -> int:
        return REST if self._long() is None else REST_LONG

    def _in(self, time_ns: int, most: int) -> int:
        """Give how many steps such a time holds if they are long, else ``most``."""
        long = self._long()
        return most if long is None else min(most, time_ns // long)

    def _steady(self) -> bool:
        if self.seen >= LATEST or self._long() is not None:
            return True
        few = self.seen < EARLIEST or len(self.recent) < STEADY
        return not few and max(self.recent) * 10 <= min(self.recent) * 11

    def steps(self, what: str) -> int:
        """Give how many whole steps such a window is to hold."""
        if what is PROBE:
            return 1
        per_step = max(1, self.per_step or 1)
        if what is STACKS:
            if per_step * STACKS_FACTOR * LEAST <= self.events:
                return max(1, self._in(STACKS_LAST_NS, LEAST))
            return 2 if per_step * STACKS_USUAL * 2 <= self.events and self._long() is None else 1
        least = USEFUL if per_step * USEFUL <= self.most_events else LEAST
        most = max(USEFUL, self._in(LASTS_NS, self.window_steps))
        return min(self.window_steps, self.limit, most, max(least, self.events // per_step))

    def more(self, what: str) -> int:
        """Give how many more steps such a window may last that waits for its device.

        A device is a thousand launches behind at most. Of ranks it is a number known beforehand.
        """
        if self.ranks:
            return RANKS_BEHIND
        return max(BEHIND_LEAST, BEHIND * self.events // max(1, self.events_of(what, 1)))

    def events_of(self, what: str, steps: int) -> int:
        """Estimate the events of a window of so many steps."""
        return (self.per_step or 0) * steps * (STACKS_FACTOR if what is STACKS else 1)

    def probed(self, step: int, events: int, cost: int) -> str | None:
        """Learn from the probe; give why there will be no windows, if so."""
        self.per_step = events
        self.spent += cost
        if events > HOPELESS:
            self.next = None
            return f"one step makes {events} events, too many to record"
        self.next, self.at = WINDOW, RANKS_FIRST if self.ranks else step + self._rest()
        return None

    def opened(self, step: int, at: int) -> None:
        """Note that a window was opened: later ones are planned from the first."""
        if not self.begun:
            self.begun = at
        if self.next is WINDOW and not self.first_at:
            self.first_at = step

    def closed(self, step: int, steps: int, stop: int, cost: int) -> None:
        """Plan what follows a window that was kept; stopping and saving took ``stop`` ns."""
        self.spent += cost
        self._settle(step)
        if stop > SLOW_NS:
            self.limit = max(LEAST, steps * SLOW_NS // stop)
        if self.next is STACKS:
            self.stacks_due = False
        else:
            self.kept += 1
        self._after(step)

    def held(self, cost: int) -> None:
        """Note what a window cost the training after it was closed."""
        self.spent += cost

    def failed(self, step: int, cost: int) -> str | None:
        """Plan what follows a window that was not kept; give why there will be none, if so."""
        self.spent += cost
        self.failures += 1
        self._settle(step)
        if self.failures >= MOST_FAILURES:
            self.next = None
            return f"{self.failures} windows were cut short"
        if self.next is STACKS:
            self.stacks_due = False
        if self.next is PROBE:
            self.at = step + (AGAIN if self._long() is None else AGAIN_LONG)
        elif self.next is WINDOW and not self.kept and not self.ranks:
            self.at = (
                step + self._rest()
            )  # what cut it ended an epoch, as a rule: now there is room
        else:
            self._after(step)
        return None

    def _settle(self, step: int) -> None:
        """Note when a window that was planned to end at a step is closed in all ranks."""
        self.settled = step + RANKS_BEHIND

    def without_stacks(self, step: int) -> None:
        """Go on without the window with stacks."""
        self.stacks_due = False
        self._after(step)

    def _after(self, step: int) -> None:
        self.stacks_due = self.stacks_due and (self.per_step or 0) <= STACKS_EVENTS
        if self.kept and self.stacks_due:
            self.next = STACKS
            self.at = step + (RANKS_BEHIND + REST + 2 if self.ranks else self._rest())
            return
        self.next = WINDOW if self.kept < self.most else None
        self.at = self._position(step)
        if not self.ranks and not self.every:
            self.not_before = self.begun + self.spent * SHARE

    def _position(self, step: int) -> int:
        """Give the next planned step: every so many, at doubling, for ranks at fourfold steps."""
        at = max(1, self.first_at)
        if self.every:
            late = RANKS_BEHIND if self.ranks else 0
            every = max(int(self.every), self.window_steps + late + REST)
            return at + every * max(1, -(-(step + late + REST - at) // every))
        if not self.ranks:
            return max(2 * step, step + 10)
        while at < step + max(self.window_steps, RANKS_BEHIND) + REST:
            at *= RANKS_FACTOR
        return at
