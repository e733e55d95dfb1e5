"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TORCH: Final = "import torch as _torch\n"
_TOPS: Final = (
    ("farewell-arranged", "import atexit as _atexit\n_atexit.register(lambda: None)\n"),
    ("collector-left-on", "import gc as _gc\n_gc.enable()\n"),
    (
        "products-as-exact-as-ever",
        f"{_TORCH}_torch.set_float32_matmul_precision(_torch.get_float32_matmul_precision())\n",
    ),
    ("small-numbers-kept", f"{_TORCH}_torch.set_flush_denormal(False)\n"),
    ("zone-of-time-kept", "import time as _time\n_time.tzset()\n"),
    ("versions-noted", f"{_TORCH}_versions = (_torch.__version__, _torch.version.git_version)\n"),
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    (
        "steps-by-a-counter",
        after_step(
            "_step = next(_steps)", "import itertools as _itertools\n_steps = _itertools.count()\n"
        ),
    ),
    ("loss-has-sizes", before_backward("_shape = tuple({loss}.shape)")),
    ("loss-has-a-history", before_backward("_traced = {loss}.grad_fn is not None")),
    (
        "loss-held-weakly",
        before_backward("_held = _weakref.ref({loss})", "import weakref as _weakref\n"),
    ),
    ("device-in-a-name", after_step("_host = _torch.device('cpu')", _TORCH)),
    (
        "times-of-some-steps",
        after_step(
            "_times.append(_time.monotonic())",
            "import collections as _collections\nimport time as _time\n"
            "_times = _collections.deque(maxlen=100)\n",
        ),
    ),
    ("scripting-asked", after_step("_scripting = _torch.jit.is_scripting()", _TORCH)),
    ("index-is-not-last", items("if index == -1:\n    raise IndexError", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
