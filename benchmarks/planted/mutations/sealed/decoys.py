"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import TORCH
from benchmarks.planted.mutations.parts import items
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_FLAG: Final = "import threading as _threading\n_flag = _threading.Event()\n"
_SETTING: Final = (
    "import contextvars as _contextvars\n"
    '_setting = _contextvars.ContextVar("_setting", default=0)\n'
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("name-in-a-number", after_step("_mark = hash(__name__) % 97")),
    ("loss-lies-in-a-row", before_backward("_in_a_row = {loss}.is_contiguous()")),
    ("loss-is-real", before_backward("_real = not {loss}.is_complex()")),
    ("casting-asked", before_backward("_casting = _torch.is_autocast_enabled()", TORCH)),
    ("flag-raised-again", after_step("_flag.set()", _FLAG)),
    ("setting-of-a-context", after_step("_set = _setting.get()", _SETTING)),
    (
        "steps-in-a-ring",
        after_step("_ring[0] = (_ring[0] + 1) % 8\n_ring[1 + _ring[0]] = 1", "_ring = [0] * 9\n"),
    ),
    ("index-compared", items("_late = index > 1000", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
