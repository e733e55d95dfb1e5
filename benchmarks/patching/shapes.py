"""All shapes, in order."""

from typing import Final

from benchmarks.patching.loader_shapes import LAYOUTS, PLACES, REFUSED
from benchmarks.patching.other_shapes import OPTIMIZERS, PARTS, SETTINGS
from benchmarks.patching.shape import Shape

SHAPES: Final[tuple[Shape, ...]] = (
    *LAYOUTS,
    *PLACES,
    *REFUSED,
    *OPTIMIZERS,
    *SETTINGS,
    *PARTS,
)
