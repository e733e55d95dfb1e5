"""Faults in what the training thread does for itself beside a step."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.amounts import SHARES, beside, seldom, share_on
from benchmarks.planted.mutations.opened.wording import (
    FILES,
    PYTHON,
    QUIET,
)
from benchmarks.planted.mutations.parts import amount, of_output
from benchmarks.planted.mutations.plant import (
    Plant,
    Site,
    after_step,
    at_top,
)
from benchmarks.planted.source import Change

_WAITS: Final = (*PYTHON, "G220")
_READ: Final = ("G305", "G307", "G308", "G202", "G201", "G214")


def _expiring(site: Site) -> Sequence[Change] | None:
    """Wait for an answer that never comes, for part of a step."""
    seconds = f"{max(0.0003, share_on(site, SHARES) * site.step_s):.5f}"
    top = "import queue as _queue\n_answers = _queue.Queue()\n"
    text = f"try:\n    _answer = _answers.get(timeout={seconds})\nexcept _queue.Empty:\n    pass"
    return after_step(text, top)(site)


def _ticking(site: Site) -> Sequence[Change] | None:
    """Have a timer's signal interrupt the training thread for about a third of its time."""
    return [at_top(site, _TICKS)] if site.step is not None else None


def _states(site: Site) -> Sequence[Change] | None:
    """Ask for the optimizer's whole state where one of its numbers is wanted."""
    step = site.step
    if step is None or step.optimizer is None:
        return None
    number = amount(site, 1.2, share_on(site, SHARES))
    text = (
        f"for _ in range(max(1, {number} // len({{parameters}}))):\n"
        f'    _rate = {step.optimizer}.state_dict()["param_groups"][0]["lr"]'
    )
    return after_step(text)(site)


_CONFUSION: Final = (
    "_seen = {output}.detach().float().flatten()[:256].tolist()\n"
    "_confusion = [[0] * 10 for _ in range(10)]\n"
    "for _at in range({n}):\n"
    "    _row = 1 if _seen[_at % len(_seen)] > 0.0 else 0\n"
    "    _confusion[_row][_at % 10] += 1"
)
_TEXT: Final = """import collections as _collections
_spoken = [f"word{7919 * _at % 211}" for _at in range({n})]
_meant = [f"word{104729 * _at % 199}" for _at in range({n})]
"""
_GRAMS: Final = """_common = _collections.Counter(zip(_spoken, _spoken[1:])) & _collections.Counter(
    zip(_meant, _meant[1:])
)
_shared = sum(_common.values()) / max(1, len(_spoken) - 1)"""
_NESTED: Final = """_options = {
    f"part{_at}": {"kind": "layer", "size": [_at, 4], "inner": {"rate": 0.1, "scale": _at}}
    for _at in range(max(1, {n} // 5))
}


def _flattened(options, prefix=""):
    flat = {}
    for key, value in options.items():
        if isinstance(value, dict):
            flat.update(_flattened(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
"""
_KEPT: Final = """import glob as _glob
import os as _os
import tempfile as _tempfile
_shelf = _tempfile.mkdtemp()
for _at in range(20):
    open(_os.path.join(_shelf, f"model-{_at}.pt"), "wb").close()
"""
_SORTED: Final = """for _ in range({n}):
    _models = sorted(_glob.glob(_os.path.join(_shelf, "model-*.pt")), key=_os.path.getmtime)
    _oldest = _models[:-3]"""
_REPLAY: Final = """import collections as _collections
import random as _random
_replay = _collections.deque(((_at, 0, 1.0) for _at in range({n})), maxlen={n})
_draw = _random.Random(1)
"""
_TREE: Final = """import random as _random
_leaves = 4096
_sums = [0.0] * (2 * _leaves)
for _at in range(_leaves):
    _sums[_leaves + _at] = 1.0 + _at % 7
for _at in range(_leaves - 1, 0, -1):
    _sums[_at] = _sums[2 * _at] + _sums[2 * _at + 1]
_draw = _random.Random(1)
"""
_DESCENT: Final = """_picked = []
for _ in range({n}):
    _mass, _node = _draw.random() * _sums[1], 1
    while _node < _leaves:
        _node *= 2
        if _mass > _sums[_node]:
            _mass -= _sums[_node]
            _node += 1
    _picked.append(_node - _leaves)"""
_BEAMS: Final = """import heapq as _heapq
_scores = [7919 * _at % 10007 / 10007 for _at in range(50)]
"""
_SEARCH: Final = """_beams = [(0.0, ())] * 5
for _at in range({n}):
    _grown = [
        (score + _scores[(_at + token) % 50], (*path[-8:], token))
        for score, path in _beams
        for token in range(20)
    ]
    _beams = _heapq.nlargest(5, _grown)"""
_CENTRES: Final = """import numpy as _numpy
_features = _numpy.random.default_rng(1).random(({n}, 16), dtype="float32")
"""
_ASSIGNED: Final = """_centres = _features[:8].copy()
_near = ((_features[:, None] - _centres[None]) ** 2).sum(2).argmin(1)
_centres = _numpy.stack([_features[_near == _at].sum(0) for _at in range(8)])"""
_NEIGHBOURS: Final = """import random as _random
_neighbours = [[(7 * _at + _edge) % 997 for _edge in range(1, 6)] for _at in range(997)]
_draw = _random.Random(1)
"""
_WALKS: Final = """_walk = [0]
for _ in range({n}):
    _walk.append(_draw.choice(_neighbours[_walk[-1]]))"""
_POLE: Final = """import math as _math
_pole = [0.0, 0.0, 0.05, 0.0]
"""
_SWINGS: Final = """for _ in range({n}):
    _push = 10.0 if _pole[2] > 0.0 else -10.0
    _turn = (9.8 * _math.sin(_pole[2]) - _push * _math.cos(_pole[2])) / 0.7
    _pole[0] = _math.fmod(_pole[0] + 0.02 * _pole[1], 2.4)
    _pole[1] = _math.fmod(_pole[1] + 0.02 * (_push - 0.1 * _turn), 3.0)
    _pole[2] = _math.fmod(_pole[2] + 0.02 * _pole[3], 0.2)
    _pole[3] = _math.fmod(_pole[3] + 0.02 * _turn, 3.0)"""
_HISTORY: Final = """import pandas as _pandas
_history = [_pandas.DataFrame({"step": range(200), "loss": 0.5, "rate": 0.1})]
"""
_JOINED: Final = """for _at in range({n}):
    _row = _pandas.DataFrame({"step": [_at], "loss": [0.5], "rate": [0.1]})
    _history[0] = _pandas.concat([_history[0].tail(200), _row], ignore_index=True)"""
_ROLLOUT: Final = """import pickle as _pickle
_rollout = [{"action": _at, "reward": 0.5, "seen": [0.1, 0.2, 0.3]} for _at in range({n})]
"""
_TICKS: Final = """import signal as _signal
import time as _time
_frames = {}


def _ticked(number, frame):
    until = _time.perf_counter() + 0.003
    while _time.perf_counter() < until:
        code = frame.f_code if frame is not None else None
        _frames[code] = _frames.get(code, 0) + 1


_signal.signal(_signal.SIGALRM, _ticked)
_signal.setitimer(_signal.ITIMER_REAL, 0.01, 0.01)
"""
_OTHER: Final = """import torch as _torch
from torch.utils.data import DataLoader as _Loader
_unlabelled = _Loader(range({n}), batch_size=8, shuffle=True)
"""
_RECORDS: Final = """import io as _io
import pandas as _pandas
_measured = _pandas.DataFrame({f"metric{_at}": [0.37 * _at] * 50 for _at in range(8)})
"""
_WRITTEN: Final = """for _ in range({n}):
    _sheet = _io.StringIO()
    _measured.to_csv(_sheet)"""
_INTERVALS: Final = """import random as _random
_results = [7919 * _at % 1009 / 1009 for _at in range(100)]
_draw = _random.Random(1)
"""
_BOOTSTRAP: Final = """_spread = sorted(
    sum(_draw.choices(_results, k=100)) / 100 for _ in range({n})
)"""
_VERSIONS: Final = "import importlib.metadata as _metadata\n"
_ASKED: Final = "for _ in range({n}):\n    _version = _metadata.version('torch')"

PLANTS: Final = (
    Plant(
        "confusion-by-hand",
        "confusions",
        of_output(_CONFUSION, 0.25),
        _READ,
        at_line=True,
    ),
    Plant(
        "pairs-of-words", "word-pairs", beside(_GRAMS, 0.45, SHARES, _TEXT), PYTHON, at_line=True
    ),
    Plant(
        "options-flattened-again",
        "flat-options",
        beside("_flat = _flattened(_options)", 1.1, SHARES, _NESTED, early=True),
        PYTHON,
        QUIET,
        at_line=True,
    ),
    Plant(
        "identifiers-made",
        "identifiers",
        beside(
            "_identifiers = [str(_uuid.uuid4()) for _ in range({n})]",
            6.5,
            SHARES,
            "import uuid as _uuid\n",
        ),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "models-listed-by-age",
        "model-shelves",
        beside(_SORTED, 150.0, SHARES, _KEPT),
        (*FILES, "G701"),
        ("no-checkpoint", "checkpoint-every"),
        at_line=True,
    ),
    Plant(
        "replay-copied-to-draw",
        "replay-copies",
        beside("_drawn = _draw.sample(list(_replay), 8)", 0.015, SHARES, _REPLAY, early=True),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "priorities-descended",
        "priorities",
        beside(_DESCENT, 1.6, SHARES, _TREE),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "beams-grown-by-hand", "beams", beside(_SEARCH, 42.0, SHARES, _BEAMS), PYTHON, at_line=True
    ),
    Plant(
        "clusters-on-host",
        "clusters",
        beside(_ASSIGNED, 0.8, SHARES, _CENTRES, early=True),
        (*PYTHON, "G203"),
        at_line=True,
    ),
    Plant("walks-on-host", "walks", beside(_WALKS, 0.8, SHARES, _NEIGHBOURS), PYTHON, at_line=True),
    Plant("poles-swung", "simulations", beside(_SWINGS, 0.75, SHARES, _POLE), PYTHON, at_line=True),
    Plant(
        "history-joined-to-row",
        "frame-growth",
        beside(_JOINED, 420.0, SHARES, _HISTORY),
        (*PYTHON, "G702", "G203"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "rollout-sent-round",
        "round-trips",
        beside("_received = _pickle.loads(_pickle.dumps(_rollout))", 4.0, SHARES, _ROLLOUT),
        PYTHON,
        at_line=True,
    ),
    Plant("answer-waited-for", "expiries", _expiring, _WAITS, at_line=True),
    Plant(
        "timer-interrupts",
        "timer-signals",
        _ticking,
        (*PYTHON, "G804"),
        (),
        "any",
        at_line=True,
    ),
    Plant(
        "first-of-a-new-pass",
        "new-passes",
        beside("_extra = next(iter(_unlabelled))", 0.07, SHARES, _OTHER, early=True),
        (*PYTHON, "G101", "G102", "G105", "G114"),
        at_line=True,
    ),
    Plant(
        "whole-state-for-a-rate",
        "state-lookups",
        _states,
        (*PYTHON, "G204"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "sheet-written-now-and-then",
        "sheets",
        seldom(_WRITTEN, 650.0, SHARES, _RECORDS),
        (*PYTHON, "G702", "G705"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "spread-by-resampling",
        "resampling",
        seldom(_BOOTSTRAP, 21.0, SHARES, _INTERVALS),
        (*PYTHON, "G705"),
        at_line=True,
    ),
    Plant(
        "versions-asked-again",
        "version-lookups",
        beside(_ASKED, 1100.0, SHARES, _VERSIONS),
        FILES,
        QUIET,
        at_line=True,
    ),
)
