"""Checks of the replay in words: what known delays were predicted to cost, and what they did."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.trial import Agreement, Check, DelayCost, Trial

_AGREEMENT_WORDS: Final = {
    Agreement.WITHIN: "as predicted",
    Agreement.NEAR: "not distinguishable from the prediction",
    Agreement.FAR: "not as predicted; until a check agrees, nothing of the kind is predicted",
    Agreement.UNDECIDED: "too noisy to tell",
}


def check_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """Return a line for the latest check of each place."""
    latest_checks = {
        side.check.place: side.check
        for trial in trials
        for side in trial.sides
        if side.check is not None and side.check.measured is not None
    }
    for check in latest_checks.values():
        yield check_line(check)


def check_line(check: Check) -> str:
    """Describe what a delay was predicted to cost a step, and its measured cost."""
    delay = f"a delay of {check.delay_ns / 1e6:.3g} ms in {check.place}"
    sentence = f"{delay} was predicted to cost {_cost_text(check.predicted)} a step"
    if check.measured is None:
        return f"{sentence}; it was not measured"
    return f"{sentence}, measured {_cost_text(check.measured)}: {_AGREEMENT_WORDS[check.agreement]}"


def check_headline(checks: Sequence[Check]) -> str:
    """Summarise all checks of a trial."""
    disagreeing = [check.place for check in checks if check.agreement is Agreement.FAR]
    if disagreeing:
        return f"the replay does not hold in {' and '.join(disagreeing)}"
    decided = [check.place for check in checks if check.agreement is not Agreement.UNDECIDED]
    if not decided:
        return "too noisy to check the replay"
    return f"the replay holds in {' and '.join(decided)}"


def _cost_text(cost: DelayCost) -> str:
    """Format milliseconds with their interval, in the digits that its width justifies."""
    width = (cost.high - cost.low) / 1e6
    digits = 3 if width < 0.1 else 2 if width < 1 else 1  # noqa: PLR2004 - two digits of the width
    low, mid, high = (f"{bound / 1e6:.{digits}f}" for bound in (cost.low, cost.mid, cost.high))
    return f"{mid} ms [{low} … {high}]"
