"""What earlier trials of the run say of predictions: ceilings bound them, checks may refute them.

A check put a known delay into the training (``gapless try --check-prediction``). Where that cost
something else than the replay said, by far, nothing that the replay says of the like is believed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gapless.model.change import Predicted
from gapless.model.edit import Applicability
from gapless.model.interval import Interval
from gapless.model.trial import Agreement, Check, Trial

_DATA: Final = frozenset({"cached-batch"})
_COPIES: Final = frozenset({"cached-batch-on-device"})
_TAILS: Final = frozenset({"no-logging", "no-checkpoint", "no-evaluation"})
_KIN: Final = {"host": ("host", "sync")}  # what the training thread takes, and waits for
_OF: Final = {"feed": (_DATA, _COPIES), "copy": (_COPIES,), "tail": (_TAILS,)}


@dataclass(frozen=True)
class Ceiling:
    """What taking something away altogether was measured to give."""

    fixes: frozenset[str]
    speedup: Interval


@dataclass(frozen=True)
class Ceilings:
    """All that were measured of a run, the latest of each last."""

    found: tuple[Ceiling, ...] = ()
    refuted: Mapping[str, str] = field(default_factory=dict[str, str])  # family: why

    def bound(self, predicted: Predicted) -> Predicted:
        """Give a prediction nowhere above the ceiling of its kind; none if a check failed."""
        if predicted.speedup is not None and predicted.family in self.refuted:
            return replace(predicted, speedup=None, refused=self.refuted[predicted.family])
        speedup, most = predicted.speedup, self._of(predicted.family)
        if speedup is None or most is None or speedup.high <= most:
            return predicted
        bounded = Interval(min(speedup.low, most), min(speedup.mid, most), most)
        note = f"bounded by the ceiling that was measured: {most:.2f}×"
        return replace(predicted, speedup=bounded, notes=(*predicted.notes, note))

    def _of(self, family: str) -> float | None:
        """Give the most that taking away all of a kind was measured to give."""
        for names in _OF.get(family, ()):
            known = [one for one in self.found if one.fixes and one.fixes <= names]
            whole = [one for one in known if names in (_TAILS, one.fixes)]
            if whole:
                return max(1.0, whole[-1].speedup.high)
        return None


def ceilings_of(trials: Sequence[Trial]) -> Ceilings:
    """Give the ceilings that some trials measured, and what their checks refuted."""
    found = tuple(side for trial in trials for side in trial.sides)
    return Ceilings(
        tuple(
            Ceiling(frozenset(side.fixes), side.speedup)
            for side in found
            if side.applicability is Applicability.TRIAL and side.speedup is not None
        ),
        _refuted([side.check for side in found if side.check is not None]),
    )


def _refuted(checks: Sequence[Check]) -> dict[str, str]:
    """Give the families of predictions that the latest check of their place speaks against."""
    found = dict[str, str]()
    for one in checks:
        for family in _KIN.get(one.family, (one.family,)):
            if one.agreement is Agreement.BESIDE:
                found[family] = f"a delay in {one.place} did not cost what was predicted: try it"
            elif one.agreement is not Agreement.UNDECIDED:
                found.pop(family, None)
    return found
