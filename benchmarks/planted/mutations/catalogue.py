"""All mutations by name: those that cost time, and those that are meant not to."""

from collections.abc import Mapping
from typing import Final

from benchmarks.planted.mutations import feeding, stepping, switches
from benchmarks.planted.mutations.plant import Plant

FAULTS: Final[tuple[Plant, ...]] = (*feeding.PLANTS, *stepping.PLANTS, *switches.PLANTS)
DECOYS: Final[tuple[Plant, ...]] = switches.HARMLESS
MUTATIONS: Final[Mapping[str, Plant]] = {one.name: one for one in (*FAULTS, *DECOYS)}
