"""Causes whose remedies have to be tried: what these give is not known, only what they can at most.

What torch.compile or CUDA graphs do to a step depends on what they find to fuse and to capture: of
five trainings in which compiling was measured, one became 1.9 times as fast, three stayed as they
were and one became a tenth slower. So such a cause has no price. What its removal as a whole would
give is replayed instead, and said to be the most.
"""

from dataclasses import replace
from typing import Final

from gapless.model.finding import Finding, Loss
from gapless.study.price import Prices, finding, worth_naming

UNKNOWN: Final = "what a remedy gives of it is not known before it is tried"
_BOUND: Final = 2.0  # times as fast without it: it is more than half of the step, which it bounds


def priced(prices: Prices, loss: Loss) -> Finding:
    """Price a loss; of one whose remedies have to be tried, give what it is worth at most.

    Likewise of what was seen too seldom to know how often it comes.
    """
    found = finding(prices, loss)
    most = found.predicted.speedup
    if most is None or not (loss.to_try or loss.unsure):
        return found
    why = loss.unsure or UNKNOWN
    return Finding(loss, replace(found.predicted, speedup=None, at_most=most, refused=why), None)


def worth_saying(found: Finding) -> bool:
    """Tell whether a cause is worth a line: by its price, or since it is what bounds the step.

    A trial of something risky is asked of a person, so more must be at stake than a few percent.
    """
    most = found.predicted.at_most
    if most is None:
        return worth_naming(found.predicted)
    return most.low >= _BOUND and found.loss.unsure is None
