"""Faults and decoys that were of unseen halves, and belong to the open one since."""

from typing import Final

from benchmarks.planted.mutations.opened import decoys, harmless
from benchmarks.planted.mutations.opened.chores import (
    accounts,
    errands,
    estimates,
    host,
    notes,
    occasions,
    puzzles,
    reports,
    routines,
)
from benchmarks.planted.mutations.opened.computing import (
    activations,
    comparisons,
    entries,
    layouts,
    measures,
    modules,
    operands,
    precisions,
    products,
    quantities,
    reductions,
    sequences,
    tensors,
    watches,
)
from benchmarks.planted.mutations.opened.feeding import (
    codings,
    features,
    labels,
    readings,
    samples,
    scans,
    signals,
    structures,
)
from benchmarks.planted.mutations.plant import Plant

PLANTS: Final[tuple[Plant, ...]] = (
    *(*samples.PLANTS, *tensors.PLANTS, *modules.PLANTS, *host.PLANTS, *occasions.PLANTS),
    *(*features.PLANTS, *errands.PLANTS, *products.PLANTS),
    *(*readings.PLANTS, *routines.PLANTS, *operands.PLANTS),
    *(*reports.PLANTS, *signals.PLANTS, *quantities.PLANTS),
    *(*structures.PLANTS, *notes.PLANTS, *comparisons.PLANTS, *watches.PLANTS),
    *(*codings.PLANTS, *puzzles.PLANTS, *sequences.PLANTS, *precisions.PLANTS),
    *(*labels.PLANTS, *accounts.PLANTS, *measures.PLANTS, *layouts.PLANTS),
    *(*scans.PLANTS, *estimates.PLANTS, *reductions.PLANTS, *activations.PLANTS),
    *entries.PLANTS,
)
HARMLESS: Final[tuple[Plant, ...]] = (*decoys.HARMLESS, *harmless.HARMLESS)
