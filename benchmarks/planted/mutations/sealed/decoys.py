"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TORCH: Final = "import torch as _torch\n"
_TIMED: Final = """import threading as _threading
_alarm = _threading.Timer(1e6, print)
_alarm.daemon = True
_alarm.start()
"""
_TOPS: Final = (
    ("umask-asked", "import os as _os\n_mask = _os.umask(0o022)\n"),
    (
        "limits-asked",
        "import resource as _res\n_res.getrlimit(_res.RLIMIT_NOFILE)\n",
    ),
    ("alarm-far-away", _TIMED),
    (
        "recursion-as-it-is",
        "import sys\nsys.setrecursionlimit(sys.getrecursionlimit())\n",
    ),
    ("faults-written", "import faulthandler as _faults\n_faults.enable()\n"),
    ("numbers-shown-shorter", f"{_TORCH}_torch.set_printoptions(precision=3)\n"),
    ("anomalies-left-alone", f"{_TORCH}_torch.autograd.set_multithreading_enabled(True)\n"),
    ("benchmark-left-as-it-is", f"{_TORCH}_known = _torch.backends.cudnn.benchmark\n"),
    ("seed-of-numpy", "import numpy as _numpy\n_numpy.random.seed(3)\n"),
    ("math-allowed", f"{_TORCH}_torch.backends.cuda.enable_math_sdp(True)\n"),
    (
        "switch-interval-kept",
        "import sys\nsys.setswitchinterval(sys.getswitchinterval())\n",
    ),
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    (
        "steps-in-a-mapping",
        after_step("_tally[0] = _tally.get(0, 0) + 1", "_tally = {}\n"),
    ),
    ("loss-in-a-name", before_backward("_loss_now = {loss}")),
    ("loss-needs-slopes", before_backward("assert {loss}.requires_grad")),
    (
        "time-of-day-noted",
        after_step("_stepped = _time.time_ns()", "import time as _time\n"),
    ),
    (
        "reported-every-million",
        after_step(
            "_n_steps[0] += 1\nif _n_steps[0] % 1_000_000 == 0:\n    print(_n_steps)",
            "_n_steps = [0]\n",
        ),
    ),
    ("slopes-on", after_step("_slopes_on = _torch.is_grad_enabled()", _TORCH)),
    (
        "main-thread-known",
        after_step("_thread = _threading.current_thread()", "import threading as _threading\n"),
    ),
    ("parts-of-a-name", after_step("_parts = __name__.partition('.')")),
    ("index-is-a-number", items("index + 0", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
