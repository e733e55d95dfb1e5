"""All mutations by name: those that cost time, and those that are meant not to."""

from collections.abc import Mapping
from typing import Final

from benchmarks.planted.mutations import (
    chores,
    computing,
    errands,
    feeding,
    harmless,
    models,
    operators,
    records,
    sampling,
    settings,
    stepping,
    switches,
)
from benchmarks.planted.mutations.opened import plants as opened
from benchmarks.planted.mutations.plant import Plant
from benchmarks.planted.mutations.sealed import plants as sealed

OPEN: Final[tuple[Plant, ...]] = (
    *(*feeding.PLANTS, *stepping.PLANTS, *switches.PLANTS),
    *(*chores.PLANTS, *models.PLANTS, *operators.PLANTS, *sampling.PLANTS),
    *(*computing.PLANTS, *errands.PLANTS, *records.PLANTS, *settings.PLANTS),
    *(*opened.PLANTS, *switches.HARMLESS, *harmless.HARMLESS, *opened.HARMLESS),
)
SEALED: Final[tuple[Plant, ...]] = (*sealed.PLANTS, *sealed.HARMLESS)
FAULTS: Final[tuple[Plant, ...]] = tuple(plant for plant in (*OPEN, *SEALED) if not plant.decoy)
DECOYS: Final[tuple[Plant, ...]] = tuple(plant for plant in (*OPEN, *SEALED) if plant.decoy)
MUTATIONS: Final[Mapping[str, Plant]] = {plant.name: plant for plant in (*FAULTS, *DECOYS)}
