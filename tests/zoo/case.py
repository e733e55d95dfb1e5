"""What a case is: a family, a size, what is wrong with it (or not), and its menu."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from tests.zoo.menus import DECOY, Choice

FAULT, COMPOUND, HEALTHY = "fault", "compound", "healthy"  # or DECOY


class Case(Struct, frozen=True):
    """A training with what was planted in it."""

    name: str
    family: str  # a module of tests/zoo/families
    size: str  # "c": on two cores, "g": on a data-centre GPU
    kind: str  # what its author believes: fault, compound, healthy, decoy
    planted: tuple[str, ...]  # causes, as the catalogue of faults calls them
    options: Mapping[str, Any]
    menu: tuple[Choice, ...]
    without: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    ranks: int = 1
    steps: int | None = None  # of the recorded run; else it is as long as a time says
    needs: tuple[str, ...] = ()  # modules beside torch: without them it cannot be trained

    def variant(self, name: str) -> Mapping[str, Any]:
        """Return the options that a variant sets otherwise."""
        return self.without[name]

    @property
    def group(self) -> str:
        """Return what this counts as: something is wrong, or nothing that costs anything."""
        return "sound" if self.kind in (HEALTHY, DECOY) else "faulty"
