"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import TORCH
from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TOPS: Final = (
    ("graph-of-devices-unused", f"{TORCH}_graphs = _torch.cuda.is_available()\n"),
    ("default-kind-kept", f"{TORCH}_torch.set_default_dtype(_torch.get_default_dtype())\n"),
    ("switches-read", f"{TORCH}_tried = _torch.backends.cudnn.benchmark\n"),
    ("recursion-as-deep", "import sys as _sys\n_sys.setrecursionlimit(_sys.getrecursionlimit())\n"),
    ("locale-read", "import locale as _locale\n_spoken = _locale.getlocale()\n"),
    ("warnings-kept", "import warnings as _warnings\n_warnings.resetwarnings()\n"),
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    ("steps-counted-in-a-list", after_step("_steps[0] += 1", "_steps = [0]\n")),
    (
        "last-step-timed",
        after_step("_marks[0] = _clock.monotonic()", "import time as _clock\n_marks = [0.0]\n"),
    ),
    ("loss-has-a-kind", before_backward("_kind = {loss}.dtype")),
    ("loss-is-a-leaf-not", before_backward("_leaf = {loss}.is_leaf")),
    ("view-of-the-loss", before_backward("_view = {loss}.detach()")),
    ("slopes-allowed", before_backward("_allowed = _torch.is_grad_enabled()", TORCH)),
    ("groups-counted", after_step("_groups = len({parameters})")),
    ("index-in-a-name", items("_asked = index", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
