"""All mutations by name: those that cost time, and those that are meant not to."""

from collections.abc import Mapping
from typing import Final

from benchmarks.planted.mutations import feeding, sealed, stepping, switches
from benchmarks.planted.mutations.plant import Plant

OPEN: Final[tuple[Plant, ...]] = (
    *(*feeding.PLANTS, *stepping.PLANTS, *switches.PLANTS),
    *switches.HARMLESS,
)
SEALED: Final[tuple[Plant, ...]] = (*sealed.PLANTS, *sealed.HARMLESS)
FAULTS: Final[tuple[Plant, ...]] = tuple(one for one in (*OPEN, *SEALED) if not one.decoy)
DECOYS: Final[tuple[Plant, ...]] = tuple(one for one in (*OPEN, *SEALED) if one.decoy)
MUTATIONS: Final[Mapping[str, Plant]] = {one.name: one for one in (*FAULTS, *DECOYS)}
