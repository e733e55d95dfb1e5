"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.plant import Plant

HARMLESS: Final[tuple[Plant, ...]] = ()
