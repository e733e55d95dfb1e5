"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TORCH: Final = "import torch as _torch\n"
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("gradients-said", top_where(f"{_TORCH}_torch.set_grad_enabled(True)\n", ())),
    ("denormals-kept", top_where(f"{_TORCH}_torch.set_flush_denormal(False)\n", ())),
    ("kind-of-numbers-said", top_where(f"{_TORCH}_torch.set_default_dtype(_torch.float32)\n", ())),
    (
        "switches-as-they-are",
        top_where("import sys as _sys\n_sys.setswitchinterval(_sys.getswitchinterval())\n", ()),
    ),
    ("deeper-calls", top_where("import sys as _sys\n_sys.setrecursionlimit(20_000)\n", ())),
    (
        "warnings-filtered-once",
        top_where(
            "import warnings as _warnings\n"
            "_warnings.filterwarnings('ignore', message='nothing says this')\n",
            (),
        ),
    ),
    (
        "ends-registered",
        top_where("import atexit as _atexit\n_atexit.register(lambda: None)\n", ()),
    ),
    (
        "file-closed-at-once",
        top_where("import tempfile as _tempfile\n_tempfile.TemporaryFile().close()\n", ()),
    ),
    ("environment-asked", after_step("_debug = _os.environ.get('DEBUG')", "import os as _os\n")),
    (
        "shown-never",
        before_backward("if _shown[0]:\n    print({loss})", "_shown = [0]\n"),
    ),
    ("loss-detached", before_backward("_seen_loss = {loss}.detach()")),
    ("loss-has-a-shape", before_backward("assert {loss}.dim() >= 0")),
    (
        "deadline-far-away",
        after_step(
            "if _time.monotonic() > _deadline:\n    raise SystemExit",
            "import time as _time\n_deadline = _time.monotonic() + 1e9\n",
        ),
    ),
    (
        "stop-not-set",
        after_step(
            "if _stop.is_set():\n    raise SystemExit",
            "import threading as _threading\n_stop = _threading.Event()\n",
        ),
    ),
    ("index-remembered", items("self.records_seen = index", 1.0, "")),
    ("steps-spoken-of", after_step("_label = f'step {len(_told)}'", "_told = []\n")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
