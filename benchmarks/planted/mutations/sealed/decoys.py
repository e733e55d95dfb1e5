"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_SYSTEM: Final = "import platform as _platform\n_system = _platform.system()\n"
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("system-known", top_where(_SYSTEM, ())),
    ("steps-in-pairs", after_step("_halves[0] += 0.5", "_halves = [0.0]\n")),
    ("sides-of-the-loss", before_backward("_sides = {loss}.dim()")),
    ("index-negated", items("_minus = -index", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
