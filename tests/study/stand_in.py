"""A stand-in for the simulator of a run."""

from collections.abc import Sequence

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.change import Change


class StandIn(Struct, frozen=True):
    """What all stand-ins share: they have no windows."""

    @property
    def fidelity(self) -> None:
        """Return none."""

    def account(self, changes: Sequence[Change]) -> Account | None:
        del changes  # no window shows them

    def draw(self, changes: Sequence[Change]) -> None:
        del changes
