"""Causes whose remedies have to be tried: what these give is not known, only what they can at most.

What torch.compile or CUDA graphs do to a step depends on what they find to fuse and to capture: of
five trainings in which compiling was measured, one became 1.9 times as fast, three stayed as they
were and one became a tenth slower. So such a cause has no price. What its removal as a whole would
give is replayed instead, and said to be the most.
"""

from dataclasses import replace
from typing import Final

from gapless.model.finding import Finding, Loss
from gapless.study.price import LEAST_GAIN, Prices, finding, worth_naming

UNKNOWN: Final = "what a remedy gives of it is not known before it is tried"
_BOUND: Final = 2.0  # times as fast without it: it is more than half of the step, which it bounds


def priced(prices: Prices, loss: Loss) -> Finding:
    """Price a loss; of one whose remedies have to be tried, give what it is worth at most."""
    found = finding(prices, loss)
    if not loss.to_try or found.predicted.speedup is None:
        return found
    most = found.predicted.speedup
    return Finding(
        loss, replace(found.predicted, speedup=None, at_most=most, refused=UNKNOWN), None
    )


def worth_saying(found: Finding) -> bool:
    """Tell whether a cause is worth a line: by its price, or since it is what bounds the step.

    A trial of something risky is asked of a person, so more must be at stake than a few percent.
    """
    most = found.predicted.at_most
    return worth_naming(found.predicted) if most is None else most.low >= _BOUND


def is_open(found: Finding) -> bool:
    """Tell whether a cause without a price may be worth it, though it is not named."""
    most = found.predicted.at_most
    return found.predicted.speedup is None and (most is None or most.high - 1 >= LEAST_GAIN)
