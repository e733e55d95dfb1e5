"""Sides whose gain the noise of the arms would hide for as long as a trial may take."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gapless.verify.arms.results import Scoreboard
from gapless.verify.budget import format_time

_MIN_ARMS: Final = 4  # arms that count, before their noise means anything


def find_hidden_sides(
    scoreboard: Scoreboard, sides: Sequence[str], n_pairs: int
) -> Mapping[str, float]:
    """Return the sides that ``n_pairs`` more are not likely to decide, and what these would show.

    That is the smallest speed-up that would be proven, if arms continue to differ as they do.
    """
    if len(scoreboard.counted_results) < _MIN_ARMS:
        return {}
    gains = {
        side: scoreboard.gain_out_of_reach(side, len(scoreboard.pairs(side)) + max(0, n_pairs))
        for side in sides
    }
    return {side: gain for side, gain in gains.items() if gain is not None}


def explain_hidden_sides(
    gains: Mapping[str, float], scoreboard: Scoreboard, budget_s: float
) -> str:
    """Describe why no more arms of some sides are run, and what would help."""
    percent = math.ceil((min(gains.values()) - 1) * 100)
    noise = "pairs of arms" if scoreboard.in_turns else "arms of the same command"
    return (
        f"no more arms of {', '.join(gains)} after {len(scoreboard.counted_results)}: {noise} "
        f"differ so much here that {format_time(budget_s)} would show no gain below {percent} %; "
        "try again on a quieter machine, or with a longer --budget"
    )
