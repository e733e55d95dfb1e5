"""Faults of the unseen half: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.plant import Plant

PLANTS: Final[tuple[Plant, ...]] = ()
