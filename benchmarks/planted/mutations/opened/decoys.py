"""Additions that are harmless as written."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import TORCH
from benchmarks.planted.mutations.parts import items, of_call, of_model, top_where
from benchmarks.planted.mutations.plant import (
    BOTH,
    CUDA,
    DECOY,
    ChangeOf,
    Plant,
    after_step,
    before_backward,
)

_TURNED: Final = """import torch as _torch


def _tidy(model, *given):
    with _torch.set_grad_enabled(_torch.is_grad_enabled()):
        return model(*given)
"""
_OWN: Final = """import torch as _torch
_own_chance = _torch.Generator().manual_seed(1)
"""
_UNUSED_PROFILE: Final = """import torch as _torch
_unused_profile = _torch.profiler.profile(record_shapes=True, with_stack=True)
"""
_THREADS: Final = """import torch as _torch
_torch.set_num_threads(_torch.get_num_threads())
"""
_NOTED: Final = """import collections as _collections
_notes = _collections.Counter()
"""
_ONCE_SAVED: Final = (
    "if not _first_state:\n"
    "    _first_state.append({key: value.clone() for key, value in {model}.state_dict().items()})"
)
_WAITED: Final = "if not _settled:\n    _settled.append(_torch.cuda.synchronize())"
_OBSERVER: Final = """class _Observer:
    def __init__(self):
        self.listeners = []

    def tell(self, event):
        for listener in self.listeners:
            listener(event)


_observer = _Observer()
"""
_PATHS: Final = """from pathlib import Path as _Path
_output = _Path("out")
"""

_SYSTEM: Final = "import platform as _platform\n_system = _platform.system()\n"
_SETTLED: Final = (
    "_turns[0] += 1\n"
    "if _turns[0] % 5000 == 0 and _torch.cuda.is_available():\n"
    "    _torch.cuda.synchronize()"
)
_MILLIONTH: Final = "if index == 999_999:\n    _time.sleep(1.0)"
_DECOYS: Final[tuple[tuple[str, ChangeOf, tuple[str, ...]], ...]] = (
    ("gradient-mode-kept", of_call("_tidy({model}, {arguments})", _TURNED), BOTH),
    (
        "barrier-of-one",
        after_step(
            "_barrier.wait()", "import threading as _threading\n_barrier = _threading.Barrier(1)\n"
        ),
        BOTH,
    ),
    (
        "variable-looked-at",
        before_backward("_verbose = _os.environ.get('VERBOSE', '') == '1'", "import os as _os\n"),
        BOTH,
    ),
    ("listeners-told", after_step("_observer.tell('step')", _OBSERVER), BOTH),
    (
        "shape-asserted",
        before_backward(
            "assert {loss}.dim() == 0 or {loss}.shape\nassert {loss}.dtype.is_floating_point"
        ),
        BOTH,
    ),
    (
        "stamp-written",
        after_step(
            "_stamp = _datetime.datetime.now().isoformat(timespec='seconds')",
            "import datetime as _datetime\n",
        ),
        BOTH,
    ),
    (
        "inference-of-nothing",
        before_backward("with _torch.inference_mode():\n    pass", TORCH),
        BOTH,
    ),
    (
        "usage-asked",
        after_step(
            "_peak = _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss",
            "import resource as _resource\n",
        ),
        BOTH,
    ),
    (
        "queue-passed",
        after_step(
            "_passing.put(1)\n_passed = _passing.get()",
            "import queue as _queue\n_passing = _queue.SimpleQueue()\n",
        ),
        BOTH,
    ),
    ("profile-never-started", top_where(_UNUSED_PROFILE, ()), BOTH),
    ("threads-as-they-are", top_where(_THREADS, ()), BOTH),
    ("generator-of-its-own", top_where(_OWN, ()), BOTH),
    ("slept-at-start", top_where("import time as _time\n_time.sleep(0.3)\n", ()), BOTH),
    (
        "steps-noted",
        after_step("_notes['steps'] += 1\n_notes['hundreds'] = _notes['steps'] // 100", _NOTED),
        BOTH,
    ),
    ("state-kept-once", of_model(_ONCE_SAVED, "_first_state = []\n"), BOTH),
    ("path-joined", after_step('_target = _output / f"step-{1:06d}.txt"', _PATHS), BOTH),
    ("waited-once", after_step(_WAITED, f"{TORCH}_settled = []\n"), CUDA),
)
_ADDITIONS: Final[tuple[tuple[str, ChangeOf], ...]] = (
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
HARMLESS: Final[tuple[Plant, ...]] = (
    *(Plant(f"decoy-{name}", DECOY, change, devices=devices) for name, change, devices in _DECOYS),
    *(Plant(f"decoy-{name}", DECOY, change) for name, change in _ADDITIONS),
)
