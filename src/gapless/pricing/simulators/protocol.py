"""The interface of the simulators, and the one for runs where nothing can be replayed."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.change import Change, Prediction
from gapless.model.finding import ReplayFidelity


class Simulator(Protocol):
    """Simulates what-ifs of one run: its windows, its loaders' queue, or both together."""

    @property
    def fidelity(self) -> ReplayFidelity | None:
        """Return how well the unchanged windows are reproduced; ``None`` where there are none."""
        ...

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict the gain of changes together for an un-profiled step, or return why not."""
        ...

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return the account of a window with changes made within it; ``None``: not simulated."""
        ...


class RefusingSimulator(Struct, frozen=True):
    """Simulates nothing, and gives the reason."""

    why: str
    fidelity: ReplayFidelity | None = None

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Return the reason why nothing is predicted."""
        del changes  # whatever they are
        return Prediction(None, "host", refused=self.why)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return none."""
        del changes  # whatever they are
