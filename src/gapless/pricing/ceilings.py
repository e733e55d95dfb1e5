"""What earlier trials of the run imply for predictions: ceilings bound them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import Prediction
from gapless.model.edit import Applicability
from gapless.model.estimate import Estimate
from gapless.model.trial import Trial

_DATA: Final = frozenset({"cached-batch"})
_COPIES: Final = frozenset({"cached-batch-on-device"})
_TAILS: Final = frozenset({"no-logging", "no-checkpoint", "no-evaluation"})
_CEILING_FIXES: Final = {"feed": (_DATA, _COPIES), "copy": (_COPIES,), "tail": (_TAILS,)}


class Ceiling(Struct, frozen=True):
    """What removing something altogether was measured to give."""

    fixes: frozenset[str]
    speedup: Estimate


class Ceilings(Struct, frozen=True):
    """All ceilings that were measured for a run, the latest of each last."""

    measured: tuple[Ceiling, ...] = ()

    def bound(self, prediction: Prediction) -> Prediction:
        """Return a prediction limited to the ceiling of its kind."""
        speedup, max_speedup = prediction.speedup, self._find_limit(prediction.family)
        if speedup is None or max_speedup is None or speedup.high <= max_speedup:
            return prediction
        bounded_speedup = Estimate(
            min(speedup.low, max_speedup), min(speedup.mid, max_speedup), max_speedup
        )
        note = f"bounded by the ceiling that was measured: {max_speedup:.2f}×"
        return replace(prediction, speedup=bounded_speedup, notes=(*prediction.notes, note))

    def _find_limit(self, family: str) -> float | None:
        """Return the largest measured gain of removing everything of a kind."""
        for names in _CEILING_FIXES.get(family, ()):
            candidates = [
                ceiling for ceiling in self.measured if ceiling.fixes and ceiling.fixes <= names
            ]
            full_ceilings = [ceiling for ceiling in candidates if names in (_TAILS, ceiling.fixes)]
            if full_ceilings:
                return max(1.0, full_ceilings[-1].speedup.high)
        return None


def ceilings_of(trials: Sequence[Trial]) -> Ceilings:
    """Return the ceilings that trials measured."""
    sides = tuple(side for trial in trials for side in trial.sides)
    return Ceilings(
        tuple(
            Ceiling(frozenset(side.fixes), side.speedup)
            for side in sides
            if side.applicability is Applicability.ABLATION and side.speedup is not None
        ),
    )
