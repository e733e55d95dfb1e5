"""Arms that were disturbed: by others on the processors, or by what only the steps show."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from gapless.verify.arms.results import ArmResult, Scoreboard, arm_noise, foreign_share

_MAX_FOREIGN_SHARE: Final = 0.1  # of the processors: what others may take of them
DISTURBED: Final = "disturbed: "
_MAX_RETRIES: Final = 3  # repetitions in a row that did not help: the machine is like that
_NOISE_FACTOR: Final = 3.0  # times the other arms of its side
_MIN_NOISE: Final = 0.02  # and at least so much, relative
_MIN_OTHER_ARMS: Final = 2  # arms of its side, to compare its noise with


def find_disturbance(scoreboard: Scoreboard, result: ArmResult) -> str | None:
    """Return what disturbed an arm that counts; ``None``: nothing did."""
    if has_foreign_load(result):
        return _describe_others(result)
    sibling_noises = [
        arm_noise(scoreboard, sibling)
        for sibling in scoreboard.results_of(result.spec.side)
        if sibling is not result
    ]
    known_noises, noise = (
        [value for value in sibling_noises if value is not None],
        arm_noise(scoreboard, result),
    )
    if len(known_noises) < _MIN_OTHER_ARMS or noise is None:
        return None
    if noise > max(_MIN_NOISE, _NOISE_FACTOR * statistics.median(known_noises)):
        return f"its steps vary more than those of its side's other arms (±{noise:.0%})"
    return None


def is_hopeless(results: Sequence[ArmResult]) -> bool:
    """Return whether the last three arms that were repeated were disturbed again."""
    repeats = [
        has_foreign_load(repeat)
        for previous, repeat in pairwise(results)
        if str(previous.why_discarded).startswith(DISTURBED)
    ]
    return len(repeats) >= _MAX_RETRIES and all(repeats[-_MAX_RETRIES:])


def describe_disturbance(scoreboard: Scoreboard) -> Iterator[str]:
    """Describe how busy the machine was with others while arms that count were run."""
    disturbed_arms = [result for result in scoreboard.counted_results if has_foreign_load(result)]
    if disturbed_arms:
        worst = max(disturbed_arms, key=lambda result: foreign_share(result) or 0.0)
        yield (
            f"in {len(disturbed_arms)} of the {len(scoreboard.counted_results)} arms that count "
            f"{_describe_others(worst)} or less"
        )


def _describe_others(result: ArmResult) -> str:
    return f"others took {foreign_share(result) or 0.0:.0%} of the processors"


def has_foreign_load(result: ArmResult) -> bool:
    """Return whether others took a tenth of the processors meanwhile."""
    return (foreign_share(result) or 0.0) > _MAX_FOREIGN_SHARE
