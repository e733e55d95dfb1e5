"""What the training of a test may take: budgets as of a gate, and two that only tests have."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gapless.errors import UsageError
from gapless.gate.budgets import MEMORY, STEP, Budget, read_budget

SLOWER: Final = "slower"  # than the baseline, at most
SYNCS: Final = "syncs"  # a step, at most
_MARKER: Final = "gapless_budget"
_OF_MARKS: Final = frozenset((STEP, "data"))  # that the light marks show without a window
_PERCENT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_EXAMPLE: Final = 'for example gapless_budget(step="20 ms", data="5 %")'


class Limits(Struct, frozen=True):
    """The budgets of one test."""

    budgets: tuple[Budget, ...] = ()
    syncs: float | None = None  # a step
    slower: float | None = None  # share: 0.1 is ten per cent more than the baseline

    @property
    def needs_windows(self) -> bool:
        """Return whether torch's profiler must look at some steps."""
        return self.syncs is not None or any(
            budget.name not in _OF_MARKS for budget in self.budgets
        )


def read_limits(values: Mapping[str, object]) -> Limits:
    """Return the limits that a marker or a call names. Raises ``UsageError``."""
    if not values:
        raise UsageError(f"{_MARKER} without a budget measures nothing; {_EXAMPLE}")
    if MEMORY in values:
        raise UsageError(
            f"{_MARKER}: memory is not sampled in a test; gapless gate has a budget of it"
        )
    budgets = {name: text for name, text in values.items() if name not in {SYNCS, SLOWER}}
    return Limits(
        tuple(read_budget(_MARKER, name, text) for name, text in budgets.items()),
        _read_syncs(values.get(SYNCS)),
        _read_slower(values.get(SLOWER)),
    )


def _read_syncs(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{_MARKER}: syncs = {value!r} is no number of synchronisations a step")
    return float(value)


def _read_slower(value: object) -> float | None:
    if value is None:
        return None
    matched = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise UsageError(f'{_MARKER}: slower = {value!r} is no share; for example slower="10 %"')
    return float(matched[1]) / 100
