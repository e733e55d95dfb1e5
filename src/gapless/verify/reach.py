"""Sides whose gain the noise of the arms would hide for as long as a trial may take."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gapless.verify.budget import spoken
from gapless.verify.taken import Standing

_FEWEST: Final = 4  # arms that count, before their noise tells anything


def hidden(now: Standing, sides: Sequence[str], more: int) -> Mapping[str, float]:
    """Return the sides that ``more`` pairs are not likely to decide, and what these would show.

    That is the smallest speed-up that would be proven, if arms go on to differ as they do.
    """
    if len(now.counted) < _FEWEST:
        return {}
    shown = {side: now.out_of_reach(side, len(now.pairs(side)) + max(0, more)) for side in sides}
    return {side: least for side, least in shown.items() if least is not None}


def explained(least: Mapping[str, float], arms: int, budget_s: float) -> str:
    """Say why no more arms of some sides are run, and what would help."""
    percent = math.ceil((min(least.values()) - 1) * 100)
    return (
        f"no more arms of {', '.join(least)} after {arms}: arms of the same command differ so "
        f"much here that {spoken(budget_s)} would show no gain below {percent} %; try again on a "
        "quieter machine, or with a longer --budget"
    )
