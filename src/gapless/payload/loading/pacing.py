"""How often a fetch is recorded, and how often in detail, so that it costs at most 1 %.

Each fetch earns a share of the time that it takes, each record is paid from that: what is dear is
done seldom. How many fetches go by is known beforehand, so that one that goes by costs next to
nothing: it is taken to last as long as the last one that was recorded.
"""

from __future__ import annotations

LIGHT, DETAILED = 1, 2
ALWAYS = 2  # so many first fetches are recorded in detail: the cold one, and one like the rest
MAX_SKIPPED = 10_000  # fetches without a record

# Of the time of a fetch, in parts of 1,000: 1 % in all.
LIGHT_SHARE, DETAIL_SHARE, RANDOM_SHARE = 5, 4, 1
MIN_LIGHT_NS = 5_000  # a fetch, for a row of short fetches …
MAX_LIGHT_SHARE = 20  # … but never more than this
MAX_LIGHT_NS, MAX_DETAIL_NS = 12_000, 6_000  # a sample
LIGHT_COST_NS = 100_000  # what may be saved up for a first row; then what the last one cost
OUTLIER = 4  # times the least cost
COST_HALVES = 3  # halves: what we push out of the caches costs the fetch half as much again


class FetchPace:
    """What one kind of fetch has earned and paid, in ns."""

    __slots__ = ("_costs", "_credits", "_least", "_random_every", "_since", "count", "left")

    def __init__(self, random_every: int) -> None:
        self.left = 0  # fetches that go by before the next one is recorded
        self.count = 0  # recorded
        self._credits = [0, 0, 0]  # for rows, detail and looking at generators
        self._costs = [LIGHT_COST_NS, 0, 0]  # of the last of each; so much may be saved up
        self._least = [0, 0, 0]
        self._random_every = random_every
        self._since = random_every  # the first fetch is looked at

    def choose(self) -> int:
        """Return what is to be recorded of the fetch that begins: it is one that does not go by."""
        self.count += 1
        return DETAILED if self.count <= ALWAYS or self._credits[1] >= 0 else LIGHT

    def random(self) -> bool:
        """Return whether to look if this fetch, which is recorded, advances a random generator."""
        due = self._since >= self._random_every > 0 and self._credits[2] >= 0
        if due:
            self._since = 0
        return due

    def settle(self, wall: int, samples: int, costs: tuple[int, int, int]) -> None:
        """Note a recorded fetch: what it took and gave, and what recording it cost.

        The costs: of the row, of the detail, of looking at generators; 0: not done.
        """
        share = wall // 1000
        samples, min_light = max(1, samples), min(MIN_LIGHT_NS, share * MAX_LIGHT_SHARE)
        light = max(min(share * LIGHT_SHARE, MAX_LIGHT_NS * samples), min_light, 1)
        detail = max(min(share * DETAIL_SHARE, MAX_DETAIL_NS * samples), 1)
        gains = (light, detail, share * RANDOM_SHARE)
        self._pay(costs)
        self._earn(gains, 1)
        if self.count >= ALWAYS:
            waits = [max(0, -(self._credits[index] // gains[index])) for index in (0, 1)]
            self.left = min(*waits, MAX_SKIPPED)
            self._earn(gains, self.left)

    def _pay(self, costs: tuple[int, int, int]) -> None:
        for index, cost in enumerate(costs):
            if cost:
                # Where another program had the processor meanwhile, that was not our work.
                self._least[index] = min(self._least[index] or cost, cost)
                paid = min(cost, OUTLIER * self._least[index]) * COST_HALVES // 2
                self._credits[index] -= paid
                self._costs[index] = paid

    def _earn(self, gains: tuple[int, int, int], times: int) -> None:
        self._since += times
        self._credits = [
            min(credit + gain * times, cost)
            for credit, gain, cost in zip(self._credits, gains, self._costs)
        ]
