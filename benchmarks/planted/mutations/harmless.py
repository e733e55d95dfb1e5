"""Additions that are harmless as they are written."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import of_model
from benchmarks.planted.mutations.plant import (
    DECOY,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
)
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
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change) for name, change in _DECOYS
)
