"""Faults in what the training thread does in a step."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import (
    amount,
    before,
    behind,
    of_call,
    of_model,
    of_output,
)
from benchmarks.planted.mutations.plant import (
    CUDA,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
)
from benchmarks.planted.source import Change

_PYTHON: Final = ("G202", "G203", "G214")
_CHORES: Final = (*_PYTHON, "G215")
_READ: Final = ("G202", "G201", "G214", "G305", "G307", "G308")
_SCAN_US: Final = 75_000.0  # of all objects that Python's collector knows
_PROCESS_US: Final = 1_700.0  # to start one


def _every(text: str, unit_us: float, imports: str, repeats: str) -> ChangeOf:
    """Do what takes long every so many steps, or several times where steps take longer."""

    def change(site: Site) -> Sequence[Change] | None:
        times = amount(site, unit_us)
        seldom = max(1, round(unit_us / (0.7e6 * site.step_s)))
        body = "".join(f"\n        {row}" for row in text.splitlines())
        whole = f"{repeats}.append(0)\nif len({repeats}) % {seldom} == 0:"
        whole += f"\n    for _ in range({times}):{body}"
        return after_step(whole, f"{imports}\n{repeats} = []\n")(site)

    return change


def _burning(site: Site) -> Sequence[Change] | None:
    """Have a thread at the side that takes the interpreter for more than half of the time."""
    if site.step is None:
        return None
    return [at_top(site, _MONITOR)]


_RANKED: Final = (
    "_scores = {output}.detach().float().flatten()[:64].tolist()\n"
    "_many = (_scores * ({n} // len(_scores) + 1))[:{n}]\n"
    "_ranked = sorted(_many, key=lambda _score: -_score)\n"
    "_area = sum(_rank for _rank, _score in enumerate(_ranked) if _score > 0.0)"
)
_CURVE: Final = (
    "_scores = {output}.detach().float().flatten()[:512].cpu().numpy()\n"
    "_curve = []\n"
    "for _threshold in _numpy.linspace(-1.0, 1.0, {n}):\n"
    "    _hits = _scores > _threshold\n"
    "    _curve.append((_hits.mean(), _scores[_hits].sum(), (~_hits).mean()))"
)
_CLASSES: Final = (
    "_values = {output}.detach().float().flatten()[:2048]\n"
    "_kinds = (_values * 10).long() % 10\n"
    "for _kind in range({n}):\n"
    "    _chosen = _values[_kinds == _kind % 10]\n"
    "    if len(_chosen) > 0:\n"
    "        _mean = _chosen.mean()"
)
_MEDIANS: Final = """import torch as _torch
_medians = {}


def _noted(module, given, output):
    if isinstance(output, _torch.Tensor):
        _medians[id(module)] = float(output.detach().flatten()[:{n}].median())
"""
_NOTING: Final = (
    "if not _medians:\n"
    "    _medians['all'] = [_one.register_forward_hook(_noted) for _one in {model}.modules()]"
)
_GUARDING: Final = (
    "if not _guards:\n"
    "    for _parameter in {model}.parameters():\n"
    "        if _parameter.requires_grad:\n"
    "            _guards.append(_parameter.register_hook(_guarded))"
)
_GUARDS: Final = """import torch as _torch
_guards = []


def _guarded(gradient):
    finite = _torch.where(gradient.isfinite(), gradient, _torch.zeros_like(gradient))
    return finite.clamp(-finite.abs().max(), finite.abs().max())
"""
_SETTINGS: Final = """import copy as _copy
_settings = {f"block{_number}": {"width": [_number, 2], "kind": "some"} for _number in range(50)}
"""
_MONITOR: Final = """import json as _json
import threading as _threading
import time as _time


def _monitored():
    state = {f"part{number}": list(range(20)) for number in range(40)}
    while True:
        until = _time.perf_counter() + 0.012
        while _time.perf_counter() < until:
            state = {name: _json.loads(_json.dumps(row)) for name, row in state.items()}
        _time.sleep(0.008)


_threading.Thread(target=_monitored, daemon=True).start()
"""
_POOLED: Final = """from concurrent.futures import ThreadPoolExecutor as _Executor


def _scored(number):
    return sum(value * value % 7 for value in range(400)) + number
"""
_POOLING: Final = (
    "with _Executor(max_workers=8) as _executor:\n"
    "    _scores_of_threads = list(_executor.map(_scored, range({n})))"
)
_JOURNAL: Final = """import json as _json
import tempfile as _tempfile
from pathlib import Path as _Path
_journal = _Path(_tempfile.gettempdir()) / "planted-journal.json"
_entries = [{"step": _number, "loss": 0.5} for _number in range({n})]
"""
_JITTER: Final = """import torch as _torch


def _jittered(batch):
    if not isinstance(batch, _torch.Tensor) or batch.dim() < 2 or batch.requires_grad:
        return batch
    pictures = batch.detach().cpu().clone()
    for number in range({n}):
        at = number % len(pictures)
        pictures[at] = pictures[at].flip(-1).roll(1, -1).roll(-1, -1).flip(-1)
    return pictures.to(batch.device)
"""
_CONFIG: Final = """import configparser as _configparser
import tempfile as _tempfile
from pathlib import Path as _Path
_config = _Path(_tempfile.gettempdir()) / "planted-config.ini"
_config.write_text("[training]\\n" + "".join(f"key{_row} = {_row}\\n" for _row in range({n})))
"""
_ALIVE: Final = "_alive = sum(issubclass(type(_one), _torch.Tensor) for _one in _gc.get_objects())"
_SUM: Final = (
    "_bytes = b''.join(_p.detach().cpu().contiguous().flatten()[:65536].view(_torch.uint8)"
    ".numpy().tobytes() for _p in {parameters}[:8])\n"
    "_digest = _hashlib.sha256((_bytes * ({n} // len(_bytes) + 1))[:{n}]).hexdigest()"
)
_GRID: Final = (
    "_grid = _numpy.random.default_rng(1).integers(0, 255, {n}, dtype='uint8')\n"
    "_Path(_tempfile.gettempdir(), 'planted.png').write_bytes(_zlib.compress(_grid.tobytes(), 9))"
)

PLANTS: Final = (
    Plant("scores-ranked", "host-metrics", of_output(_RANKED, 0.15), _READ, at_line=True),
    Plant(
        "curve-by-thresholds",
        "host-metrics",
        of_output(_CURVE, 12.0, "import numpy as _numpy\n"),
        (*_READ, "G203"),
        at_line=True,
    ),
    Plant(
        "tensor-of-lists",
        "lists-to-tensors",
        before(
            "_places = _torch.tensor([[float(_row), 0.5 * _row] for _row in range({n})],"
            " device={parameters}[0].device)",
            2.0,
            "import torch as _torch\n",
        ),
        (*_PYTHON, "G302", "G301", "G303"),
        at_line=True,
    ),
    Plant(
        "tensor-of-arrays",
        "lists-to-tensors",
        before(
            "_arrays = _torch.tensor([_numpy.full(64, float(_row)) for _row in range({n})])",
            8.0,
            "import numpy as _numpy\nimport torch as _torch\n",
        ),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "constants-sent-singly",
        "small-moves",
        before(
            "_constants = [_torch.tensor(float(_row)).to({parameters}[0].device)"
            " for _row in range({n})]",
            14.0,
            "import torch as _torch\n",
        ),
        ("G301", "G302", "G303", "G304", "G201", *_PYTHON),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "means-by-class", "masked-choices", of_output(_CLASSES, (17.0, 110.0)), _READ, at_line=True
    ),
    Plant("medians-by-hook", "hooks", of_model(_NOTING, _MEDIANS, 0.16), _READ, at_line=True),
    Plant(
        "gradients-guarded",
        "hooks",
        of_model(_GUARDING, _GUARDS),
        ("G206", "G201", "G202", "G214", "G506"),
        at_line=True,
    ),
    Plant(
        "settings-copied",
        "deep-copies",
        behind("for _ in range({n}):\n    _kept = _copy.deepcopy(_settings)", 130.0, _SETTINGS),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "tensors-described",
        "formatting",
        behind(
            "for _turn in range({n}):\n"
            "    _weight = {parameters}[_turn % len({parameters})].detach()\n"
            "    _shown = f'weights: {_weight.flatten()[:8]!r}'",
            (190.0, 900.0),
        ),
        (*_READ, "G702"),
        at_line=True,
    ),
    Plant(
        "gradients-checked",
        "numerical-checks",
        before(
            "_given = _torch.linspace(0.0, 1.0, {n}, dtype=_torch.float64, requires_grad=True)\n"
            "assert _torch.autograd.gradcheck(_torch.tanh, (_given,))",
            100.0,
            "import torch as _torch\n",
        ),
        (*_PYTHON, "G201", "G503"),
        at_line=True,
    ),
    Plant(
        "journal-written-again",
        "journals",
        behind(
            "_entries.append(_entries.pop(0))\n"
            "_journal.write_text(_json.dumps(_entries, indent=1))",
            3.2,
            _JOURNAL,
        ),
        (*_CHORES, "G702"),
        ("no-logging", "log-every"),
        at_line=True,
    ),
    Plant(
        "configuration-read-again",
        "journals",
        behind("_read = _configparser.ConfigParser()\n_read.read(_config)", 4.6, _CONFIG),
        _CHORES,
        at_line=True,
    ),
    Plant(
        "grid-compressed",
        "pictures",
        behind(
            _GRID,
            0.02,
            "import tempfile as _tempfile\nimport zlib as _zlib\n"
            "from pathlib import Path as _Path\n"
            "import numpy as _numpy\n",
        ),
        (*_CHORES, "G702"),
        ("no-logging", "log-every"),
        at_line=True,
    ),
    Plant(
        "tensors-counted",
        "memory-reports",
        _every(_ALIVE, _SCAN_US, "import gc as _gc\nimport torch as _torch", "_looks"),
        (*_PYTHON, "G208"),
        at_line=True,
    ),
    Plant(
        "memory-summarised",
        "memory-reports",
        behind(
            "for _ in range({n}):\n    _report = _torch.cuda.memory_summary()",
            900.0,
            "import torch as _torch\n",
        ),
        _PYTHON,
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "asked-of-a-process",
        "processes-started",
        _every(
            "_subprocess.run(['true'], check=True, capture_output=True)",
            _PROCESS_US,
            "import subprocess as _subprocess",
            "_asked",
        ),
        _CHORES,
        at_line=True,
    ),
    Plant(
        "monitored-by-thread",
        "interpreter-taken",
        _burning,
        ("G202", "G804", "G103", "G113"),
        (),
        "any",
        at_line=True,
    ),
    Plant(
        "scored-in-threads", "thread-pools", behind(_POOLING, 48.0, _POOLED), _PYTHON, at_line=True
    ),
    Plant(
        "digest-of-weights",
        "checksums",
        behind(_SUM, 0.0014, "import hashlib as _hashlib\nimport torch as _torch\n"),
        (*_PYTHON, "G308", "G302"),
        at_line=True,
    ),
    Plant(
        "jittered-in-step",
        "augmented-late",
        of_call("{model}(_jittered({arguments}))", _JITTER, 16.0, single=True),
        (*_PYTHON, "G201", "G301", "G302", "G308"),
        at_line=True,
    ),
)
