"""Additions of the unseen half that are harmless as written: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.parts import items, top_where
from benchmarks.planted.mutations.plant import DECOY, ChangeOf, Plant, after_step, before_backward

_TORCH: Final = "import torch as _torch\n"
_WAITING: Final = """import threading as _threading
_threading.Thread(target=_threading.Event().wait, daemon=True).start()
"""
_TOPS: Final = (
    (
        "precision-said-again",
        f"{_TORCH}_torch.set_float32_matmul_precision(_torch.get_float32_matmul_precision())\n",
    ),
    ("seeded-once", f"{_TORCH}_torch.manual_seed(7)\n"),
    ("language-set", "import locale as _locale\n_locale.setlocale(_locale.LC_ALL, 'C')\n"),
    ("collector-as-it-is", "import gc as _gc\n_gc.set_threshold(*_gc.get_threshold())\n"),
    ("errors-shown-as-ever", "import sys as _sys\n_sys.excepthook = _sys.excepthook\n"),
    (
        "signal-heeded",
        "import signal as _signal\n_signal.signal(_signal.SIGUSR1, lambda *_: None)\n",
    ),
    ("folder-of-its-own", "import tempfile as _tempfile\n_own = _tempfile.mkdtemp()\n"),
    ("thread-that-waits", _WAITING),
    ("arguments-kept", "import sys as _sys\n_given = list(_sys.argv)\n"),
    ("flash-allowed", f"{_TORCH}_torch.backends.cuda.enable_flash_sdp(True)\n"),
    ("trials-left-off", f"{_TORCH}_torch.backends.cudnn.deterministic = False\n"),
)
_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    ("threads-asked", after_step("_threads = _torch.get_num_threads()", _TORCH)),
    (
        "debugging-unheard",
        after_step(
            "_logger.debug('stepped')",
            "import logging as _logging\n_logger = _logging.getLogger('quiet')\n"
            "_logger.setLevel(_logging.ERROR)\n",
        ),
    ),
    ("moment-noted", after_step("_moment = _time.perf_counter()", "import time as _time\n")),
    (
        "last-losses-kept",
        before_backward(
            "_last.append({loss}.detach())",
            "import collections as _collections\n_last = _collections.deque(maxlen=10)\n",
        ),
    ),
    ("loss-is-single", before_backward("assert {loss}.numel() == 1")),
    ("nothing-without-slopes", after_step("with _torch.no_grad():\n    pass", _TORCH)),
    ("device-asked", before_backward("_on_gpu = {loss}.is_cuda")),
    ("process-known", after_step("_process = _os.getpid()", "import os as _os\n")),
    ("index-looked-at", items("if index is None:\n    raise IndexError", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
