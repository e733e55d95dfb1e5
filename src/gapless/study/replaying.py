"""What the study asks of ``replay``, and what stands in its place where nothing can be replayed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gapless.model.account import Account
from gapless.model.change import Change, Predicted
from gapless.model.finding import Rehearsal


class Player(Protocol):
    """Plays what-ifs of one run: its windows, its loaders' queue, or both together."""

    @property
    def rehearsal(self) -> Rehearsal | None:
        """Give how well the unchanged windows are played; ``None`` where there are none."""
        ...

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        ...

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give the account of a window with changes made within it; ``None``: none is played."""
        ...


@dataclass(frozen=True)
class Silent:
    """Plays nothing, and says why."""

    why: str
    rehearsal: Rehearsal | None = None

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Give the reason why nothing is predicted."""
        del changes  # whatever they are
        return Predicted(None, "host", refused=self.why)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give none."""
        del changes  # whatever they are
