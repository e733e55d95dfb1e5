"""Causes whose remedies have to be tried: what these give is not known, only what they can at most.

What torch.compile or CUDA graphs do to a step depends on what they find to fuse and to capture: of
five trainings in which compiling was measured, one became 1.9 times as fast, three stayed as they
were and one became a tenth slower. So such a cause has no price. What its removal as a whole would
give is replayed instead, and said to be the most.
"""

from dataclasses import replace
from typing import Final

from gapless.model.finding import Finding, Detection
from gapless.study.price import Prices, price_detection, is_worth_naming

UNKNOWN: Final = "what a remedy gives of it is not known before it is tried"
_MIN_BOUND: Final = 2.0  # times as fast without it: it is more than half of the step, which it bounds


def price_or_bound(prices: Prices, detection: Detection) -> Finding:
    """Price a loss; of one whose remedies have to be tried, give what it is worth at most.

    Likewise of what was seen too seldom to know how often it comes.
    """
    priced_finding = price_detection(prices, detection)
    max_speedup = priced_finding.prediction.speedup
    if max_speedup is None or not (detection.to_try or detection.unsure):
        return priced_finding
    why = detection.unsure or UNKNOWN
    return Finding(detection, replace(priced_finding.prediction, speedup=None, at_most=max_speedup, refused=why), None)


def is_worth_saying(finding: Finding) -> bool:
    """Return whether a cause is worth a line: by its price, or since it is what bounds the step.

    A trial of something risky is asked of a person, so more must be at stake than a few percent.
    """
    max_speedup = finding.prediction.at_most
    if max_speedup is None:
        return is_worth_naming(finding.prediction)
    return max_speedup.low >= _MIN_BOUND and finding.detection.unsure is None
