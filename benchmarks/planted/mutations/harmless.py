"""Additions that are harmless as they are written."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import of_call, of_model, top_where
from benchmarks.planted.mutations.plant import (
    BOTH,
    CPU,
    DECOY,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
)
from benchmarks.planted.places import loaders, with_keywords
from benchmarks.planted.source import Change

_IDLE: Final = """import threading as _threading
_ended = _threading.Event()
_threading.Thread(target=_ended.wait, daemon=True).start()
"""
_HOOKED: Final = (
    "if not _hooked:\n"
    "    _hooked.append({model}.register_forward_hook(lambda module, given, output: None))"
)
_CACHED: Final = """from functools import lru_cache as _lru_cache


@_lru_cache(maxsize=None)
def _rate(step):
    return sum(1.0 / (1 + number) for number in range(step))
"""


def _idle(site: Site) -> Sequence[Change] | None:
    """Start a thread that waits for what never comes."""
    return [at_top(site, _IDLE)] if site.step is not None else None


def _rates(site: Site) -> Sequence[Change] | None:
    """Set the learning rate of each group to what it is."""
    step = site.step
    if step is None or step.optimizer is None:
        return None
    text = f"for _group in {step.optimizer}.param_groups:\n    _group['lr'] = _group['lr'] * 1.0"
    return after_step(text)(site)


_DECOYS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("waiting-thread", _idle),
    ("quiet-hook", of_model(_HOOKED, "_hooked = []\n")),
    ("rate-cached", before_backward("_now = _rate(100)", _CACHED)),
    ("rates-set", _rates),
    (
        "losses-kept",
        before_backward(
            "_kept.append({loss}.detach())",
            "from collections import deque as _deque\n_kept = _deque(maxlen=100)\n",
        ),
    ),
    (
        "lock-held",
        before_backward(
            "with _lock:\n    _steps.append(len(_steps))",
            "import threading as _threading\n_lock = _threading.Lock()\n_steps = []\n",
        ),
    ),
    (
        "line-of-json",
        before_backward("_line = _json.dumps({'step': 1, 'rate': 0.1})", "import json as _json\n"),
    ),
    (
        "copied-settings",
        before_backward(
            "_own = _copy.deepcopy({'width': 64, 'depth': [2, 2]})", "import copy as _copy\n"
        ),
    ),
)
_NAMED: Final = """import torch as _torch


def _named(model, *given):
    with _torch.autograd.profiler.record_function("planted"):
        return model(*given)
"""
_SEEDED: Final = """def _begun(worker):
    return None
"""
_SWITCHED: Final = """import os as _os
_DEBUGGED = _os.environ.get("PLANTED_DEBUG") == "1"
"""
_GUARDED: Final = """if _DEBUGGED:
    print([float(_p.grad.norm()) for _p in {parameters} if _p.grad is not None])"""
_POOL: Final = """from concurrent.futures import ThreadPoolExecutor as _Executor
_writers = _Executor(max_workers=8)
"""
_SPARE: Final = """import torch as _torch
_spare = _torch.nn.Sequential(_torch.nn.Linear(64, 64), _torch.nn.ReLU())
_spare_optimizer = _torch.optim.SGD(_spare.parameters(), lr=0.1)
"""


def _begun(site: Site) -> Sequence[Change] | None:
    """Have workers call what does nothing."""
    calls = loaders(site.source)
    if not calls:
        return None
    keywords = with_keywords(site.source, calls[0], {"worker_init_fn": "_begun"})
    return [at_top(site, _SEEDED), keywords]


_DECOYS_OF_DEVICES: Final[tuple[tuple[str, ChangeOf, tuple[str, ...]], ...]] = (
    (
        "stop-file",
        after_step("_stopped = _os.path.exists('planted.stop')", "import os as _os\n"),
        BOTH,
    ),
    ("no-sleep", before_backward("_time.sleep(0)", "import time as _time\n"), BOTH),
    ("named-forward", of_call("_named({model}, {arguments})", _NAMED), BOTH),
    (
        "imported-in-step",
        before_backward("import json as _json\nimport torch.profiler as _profiler"),
        BOTH,
    ),
    ("collector-frozen", top_where("import gc as _gc\n_gc.freeze()\n", ()), BOTH),
    ("workers-begun", _begun, BOTH),
    ("debugged-never", after_step(_GUARDED, _SWITCHED), BOTH),
    ("cache-of-none", after_step("_torch.cuda.empty_cache()", "import torch as _torch\n"), CPU),
    ("idle-pool", top_where(_POOL, ()), BOTH),
    ("spare-model", top_where(_SPARE, ()), BOTH),
    (
        "numbers-drawn",
        before_backward(
            "_drawn = _chance.random()", "import random as _random\n_chance = _random.Random(1)\n"
        ),
        BOTH,
    ),
    (
        "closed-context",
        before_backward(
            "with _contextlib.suppress(KeyError), _torch.no_grad():\n"
            "    _finite = {loss}.detach().isfinite()",
            "import contextlib as _contextlib\nimport torch as _torch\n",
        ),
        BOTH,
    ),
    (
        "signals-handled",
        top_where(
            "import signal as _signal\n_signal.signal(_signal.SIGUSR1, lambda *_: None)\n", ()
        ),
        BOTH,
    ),
)
HARMLESS: Final[tuple[Plant, ...]] = (
    *(Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS),
    *(
        Plant(f"decoy-{name}", DECOY, change, devices=devices)
        for name, change, devices in _DECOYS_OF_DEVICES
    ),
)
