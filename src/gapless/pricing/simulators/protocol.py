"""What pricing asks of a simulator; tests put stand-ins in its place."""

from collections.abc import Sequence
from typing import Protocol

from gapless.model.account import Account
from gapless.model.change import Change, Prediction
from gapless.model.finding import ReplayFidelity
from gapless.model.trace import Trace


class Simulator(Protocol):
    """Simulates what-ifs of one run; who asks need not know which part of it answers."""

    @property
    def fidelity(self) -> ReplayFidelity | None:
        """Return how well unchanged steps are reproduced; ``None`` where there are no windows."""
        ...

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict the gain of changes together for an un-profiled step, or return why not."""
        ...

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return the account of a window with changes made within it; ``None``: not simulated."""
        ...

    def draw(self, changes: Sequence[Change]) -> Trace | None:
        """Return a window with changes made within it, as a trace; ``None``: not simulated."""
        ...
