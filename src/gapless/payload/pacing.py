"""How often a fetch is recorded, and how often in detail, so that it costs at most 1 %.

Each fetch earns a share of the time that it took, each record is paid from that: what is dear is
done seldom. Sampling looks at nothing but what was before, so it favours no kind of fetch.
"""

from __future__ import annotations

PASSED, LIGHT, DETAILED = range(3)
ALWAYS = 2  # so many first fetches are recorded in detail: the cold one, and one like the rest

# Of the time of a fetch, in parts of 1,000: 1 % in all.
LIGHT_SHARE, DETAIL_SHARE, RANDOM_SHARE = 5, 4, 1
LIGHT_LEAST_NS = 5_000  # a fetch, for a row of short fetches …
LIGHT_LEAST_SHARE = 25  # … but never more than this
DETAIL_MOST_NS = 15_000  # a sample


LIGHT_COST_NS = 100_000  # what may be saved up for a first row; then what the last one cost
OUTLIER = 4  # times the least cost


class Pace:
    """What one kind of fetch has earned and paid, in ns."""

    __slots__ = ("_costs", "_credits", "_least", "_random_every", "_since", "count")

    def __init__(self, random_every: int) -> None:
        self.count = 0
        self._credits = [0, 0, 0]  # for rows, detail and looking at generators
        self._costs = [LIGHT_COST_NS, 0, 0]  # of the last of each; so much may be saved up
        self._least = [0, 0, 0]
        self._random_every = random_every
        self._since = random_every  # the first fetch is looked at

    def choose(self) -> int:
        """Give what is to be recorded of the fetch that begins."""
        self.count += 1
        self._since += 1
        light, detail, _ = self._credits
        if self.count <= ALWAYS or detail >= 0:
            return DETAILED
        return LIGHT if light >= 0 else PASSED

    def random(self) -> bool:
        """Tell whether to look if this fetch, which is recorded, advances a random generator."""
        due = self._since >= self._random_every > 0 and self._credits[2] >= 0
        if due:
            self._since = 0
        return due

    def earn(self, wall: int, samples: int) -> None:
        """Take note of a fetch that took so long and gave so many samples."""
        share = wall // 1000
        light = max(share * LIGHT_SHARE, min(LIGHT_LEAST_NS, share * LIGHT_LEAST_SHARE))
        detail = min(share * DETAIL_SHARE, DETAIL_MOST_NS * max(1, samples))
        gains = (light, detail, share * RANDOM_SHARE)
        self._credits = [
            min(credit + gain, cost)
            for credit, gain, cost in zip(self._credits, gains, self._costs)
        ]

    def pay(self, *costs: int) -> None:
        """Take note of what recording cost: the row, the detail, the look at generators."""
        for at, cost in enumerate(costs):
            if cost:
                # Where another program had the processor meanwhile, that was not our work.
                self._least[at] = min(self._least[at] or cost, cost)
                paid = min(cost, OUTLIER * self._least[at])
                self._credits[at] -= paid
                self._costs[at] = paid
