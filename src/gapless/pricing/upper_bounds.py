"""Causes whose remedies have to be tried: only an upper bound of their gain is known.

What torch.compile or CUDA graphs do to a step depends on what they find to fuse and to capture: of
five trainings in which compiling was measured, one became 1.9 times as fast, three stayed as they
were and one became a tenth slower. So such a cause has no price. The gain of removing it altogether
is replayed instead, as an upper bound.
"""

from typing import Final

from msgspec.structs import replace

from gapless.model.finding import Detection, Finding
from gapless.pricing.price import Prices, is_worth_naming, price_detection

UNKNOWN: Final = "the gain of a remedy is not known before it is tried"
_MIN_BOUND: Final = 2.0  # times as fast without it: it is more than half of the step, and bounds it


def price_or_bound(prices: Prices, detection: Detection) -> Finding:
    """Price a loss; where remedies have to be tried, bound it by what it is worth at most.

    The same holds for what was seen too seldom to know its frequency.
    """
    priced_finding = price_detection(prices, detection)
    max_speedup = priced_finding.prediction.speedup
    if max_speedup is None or not (detection.to_try or detection.unsure):
        return priced_finding
    why = detection.unsure or UNKNOWN
    return Finding(
        detection,
        replace(priced_finding.prediction, speedup=None, at_most=max_speedup, refused=why),
        None,
    )


def is_worth_saying(finding: Finding) -> bool:
    """Return whether a cause is worth a line: by its price, or because it bounds the step.

    A risky trial needs a person's permission, so more than a few percent must be at stake.
    """
    max_speedup = finding.prediction.at_most
    if max_speedup is None:
        return is_worth_naming(finding.prediction)
    return max_speedup.low >= _MIN_BOUND and finding.detection.unsure is None
