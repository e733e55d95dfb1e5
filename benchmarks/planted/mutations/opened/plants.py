"""Faults and decoys that were of unseen halves, and belong to the open one since."""

from typing import Final

from benchmarks.planted.mutations.opened import (
    decoys,
    errands,
    features,
    harmless,
    host,
    modules,
    occasions,
    operands,
    products,
    readings,
    routines,
    samples,
    tensors,
)
from benchmarks.planted.mutations.plant import Plant

PLANTS: Final[tuple[Plant, ...]] = (
    *(*samples.PLANTS, *tensors.PLANTS, *modules.PLANTS, *host.PLANTS, *occasions.PLANTS),
    *(*features.PLANTS, *errands.PLANTS, *products.PLANTS),
    *(*readings.PLANTS, *routines.PLANTS, *operands.PLANTS),
)
HARMLESS: Final[tuple[Plant, ...]] = (*decoys.HARMLESS, *harmless.HARMLESS)
