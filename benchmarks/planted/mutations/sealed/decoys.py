"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import TORCH
from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_SYSTEM: Final = "import platform as _platform\n_system = _platform.system()\n"
_SETTLED: Final = (
    "_turns[0] += 1\n"
    "if _turns[0] % 5000 == 0 and _torch.cuda.is_available():\n"
    "    _torch.cuda.synchronize()"
)
_MILLIONTH: Final = "if index == 999_999:\n    _time.sleep(1.0)"
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("system-known", top_where(_SYSTEM, ())),
    ("steps-in-pairs", after_step("_halves[0] += 0.5", "_halves = [0.0]\n")),
    ("sides-of-the-loss", before_backward("_sides = {loss}.dim()")),
    (
        "small-settings-copied",
        after_step("_copied = _copy.deepcopy({'rate': 0.1})", "import copy as _copy\n"),
    ),
    (
        "losses-added-up",
        before_backward("_so_far[0] = _so_far[0] + {loss}.detach()", "_so_far = [0.0]\n"),
    ),
    ("settled-seldom", after_step(_SETTLED, f"{TORCH}_turns = [0]\n")),
    ("millionth-put-off", items(_MILLIONTH, 1.0, "import time as _time\n")),
    ("index-negated", items("_minus = -index", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
