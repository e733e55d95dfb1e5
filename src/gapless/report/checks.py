"""Checks of the replay in words: what known delays were predicted to cost, and what they did."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.trial import Agreement, Check, Cost, Trial

_WORDS: Final = {
    Agreement.WITHIN: "as predicted",
    Agreement.NEAR: "not told from what was predicted",
    Agreement.BESIDE: "not what was predicted; until a check agrees, nothing like it is predicted",
    Agreement.UNDECIDED: "too noisy to tell",
}


def check_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """Give a line for the latest check of each place."""
    latest = {
        side.check.place: side.check
        for trial in trials
        for side in trial.sides
        if side.check is not None and side.check.measured is not None
    }
    for one in latest.values():
        yield check_line(one)


def check_line(one: Check) -> str:
    """Say what a delay was predicted to cost of a step, and what it was measured to cost."""
    delay = f"a delay of {one.delay_ns / 1e6:.3g} ms in {one.place}"
    told = f"{delay} was predicted to cost {_cost(one.predicted)} a step"
    if one.measured is None:
        return f"{told}; it was not measured"
    return f"{told}, measured {_cost(one.measured)}: {_WORDS[one.agreement]}"


def check_headline(checks: Sequence[Check]) -> str:
    """Say of all checks of a trial together how they went."""
    beside = [one.place for one in checks if one.agreement is Agreement.BESIDE]
    if beside:
        return f"the replay does not hold in {' and '.join(beside)}"
    known = [one.place for one in checks if one.agreement is not Agreement.UNDECIDED]
    if not known:
        return "too noisy to check the replay"
    return f"the replay holds in {' and '.join(known)}"


def _cost(found: Cost) -> str:
    """Print milliseconds with their interval, all in the digits that its width asks for."""
    width = (found.high - found.low) / 1e6
    digits = 3 if width < 0.1 else 2 if width < 1 else 1  # noqa: PLR2004 - two digits of the width
    low, mid, high = (f"{one / 1e6:.{digits}f}" for one in (found.low, found.mid, found.high))
    return f"{mid} ms [{low} … {high}]"
