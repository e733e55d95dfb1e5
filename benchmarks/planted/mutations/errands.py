"""Faults in what the host does beside the step: reports, checks, snapshots, databases."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import amount
from benchmarks.planted.mutations.plant import (
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
)
from benchmarks.planted.places import model_call
from benchmarks.planted.source import Change, Insertion

_SHARE: Final = 0.55  # of a healthy step
_PYTHON: Final = ("G202", "G214")
_FILES: Final = (*_PYTHON, "G215", "G702")
_QUIET: Final = ("no-logging", "log-every")
_COPY_US: Final = 4000.0  # of a small model
_ROUND: Final = 20  # steps from one report to the next


def _chore(text: str, unit_us: float, top: str = "", *, early: bool = False) -> ChangeOf:
    """Do something ``{n}`` times in each step, or in each of ``{every}`` steps if it takes long."""

    def change(site: Site) -> Sequence[Change] | None:
        number = amount(site, unit_us, _SHARE)
        every = max(1, round(unit_us / (_SHARE * 1e6 * site.step_s)))
        imports, body = (
            piece.replace("{n}", str(number)).replace("{every}", str(every))
            for piece in (top, text)
        )
        return (before_backward if early else after_step)(body, imports)(site)

    return change


def _snapshot(site: Site) -> Sequence[Change] | None:
    """Keep copies of the whole model in case that it was the best one."""
    step = site.step
    hit = model_call(site.source, step) if step is not None else None
    if step is None or hit is None:
        return None
    model = site.source.segment(hit[1].func)
    line = (step.after.end_lineno or step.after.lineno) + 1
    number = amount(site, _COPY_US, _SHARE)
    every = max(1, round(_COPY_US / (_SHARE * 1e6 * site.step_s)))
    text = (
        "_kept_models.append(0)\n"
        f"if len(_kept_models) % {every} == 0:\n"
        f"    _best_models = [_copy.deepcopy({model}) for _ in range({number})]"
    )
    top = at_top(site, "import copy as _copy\n_kept_models = []\n")
    return [top, Insertion(line, text, step.after.col_offset)]


_SERVED: Final = """import http.server as _server
import threading as _threading
import urllib.request as _request


class _Gateway(_server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


_gateway = _server.HTTPServer(("127.0.0.1", 0), _Gateway)
_threading.Thread(target=_gateway.serve_forever, daemon=True).start()
_open = _request.build_opener(_request.ProxyHandler({})).open
_pushes = []
"""
_PUSH: Final = """_pushes.append(0)
if len(_pushes) % {every} == 0:
    for _ in range({n}):
        _open(f"http://127.0.0.1:{_gateway.server_port}/metrics", b"steps 1\\n").close()"""
_BASE: Final = """import sqlite3 as _sqlite
import tempfile as _tempfile
_runs = _sqlite.connect(_tempfile.mkdtemp() + "/runs.sqlite", check_same_thread=False)
_runs.execute("pragma synchronous = off")
_runs.execute("create table metrics (step integer, name text, value real)")
"""
_COMMIT: Final = """for _metric in range({n}):
    _runs.execute("insert into metrics values (?, ?, ?)", (_metric, "metric", 0.5))
    _runs.commit()
_runs.execute("delete from metrics")"""
_BAR: Final = """import sys as _sys


def _drawn(done, total):
    filled = "".join("#" if 40 * done >= total * cell else "." for cell in range(40))
    _sys.stderr.write(f"\\r[{filled}] {done}/{total}")
    _sys.stderr.flush()
"""
_BOUND: Final = """import inspect as _inspect
import typing as _typing


def _checked(values: list[float], *, weight: float = 1.0, name: str = "loss") -> float:
    return weight * sum(values)
"""
_BIND: Final = """for _ in range({n}):
    _bound = _inspect.signature(_checked).bind([1.0], weight=0.5)
    _bound.apply_defaults()
    assert _typing.get_type_hints(_checked)"""
_INSPECT: Final = """_callers.append(0)
if len(_callers) % {every} == 0:
    for _ in range({n}):
        _caller = _inspect.stack()[0].lineno"""
_RATES: Final = (
    "_rates = [0.5 * (1.0 + _math.cos(_math.pi * _at / {n})) for _at in range({n})]\n"
    "_rate = _rates[len(_rates) // 2]"
)
_WARN: Final = (
    "for _ in range({n}):\n"
    "    _warnings.warn('this way of giving weights will go', UserWarning, stacklevel=1)"
)
_TOLD: Final = """import warnings as _warnings
_warnings.simplefilter("always", UserWarning)
"""
_ASYNC: Final = """import asyncio as _asyncio


async def _sent():
    await _asyncio.sleep(0)
"""
_SEND: Final = """_sendings.append(0)
if len(_sendings) % {every} == 0:
    for _ in range({n}):
        _asyncio.run(_sent())"""
_LOADED: Final = """import colorsys as _settings
import importlib as _importlib
_reloads = []
"""
_RELOAD: Final = """_reloads.append(0)
if len(_reloads) % {every} == 0:
    for _ in range({n}):
        _reloaded = _importlib.reload(_settings)"""
_MEMORY: Final = """import collections as _collections
import random as _random
_plays = _collections.deque(range(100000), maxlen=100000)
_draws = _random.Random(1)
"""
_DISTANCE: Final = """def _distance(first, second):
    row = list(range(len(second) + 1))
    for at, sign in enumerate(first, 1):
        before, row[0] = row[0], at
        for other_at, other in enumerate(second, 1):
            cost = before + (sign != other)
            before = row[other_at]
            row[other_at] = min(cost, row[other_at] + 1, row[other_at - 1] + 1)
    return row[-1]


_said = "colourless green ideas" * (1 + {n} // 22)
"""
_MAPS: Final = """_maps_read.append(0)
if len(_maps_read) % {every} == 0:
    for _ in range({n}):
        with open("/proc/self/maps") as _maps:
            _mapped = sum("rw" in _row.split()[1] for _row in _maps)"""
_REPORT: Final = """_reported.append(0)
if len(_reported) % {round} == 0:
    _words = [f"{7919 * _at % 10007:x}" for _at in range({n})]
    _report = sorted(set(_words), key=lambda _word: (_word[::-1], len(_word)))"""


def _reported(site: Site) -> Sequence[Change] | None:
    """Make a long report each so many steps."""
    number = amount(site, 0.88, _ROUND * _SHARE)
    text = _REPORT.replace("{round}", str(_ROUND)).replace("{n}", str(number))
    return after_step(text, "_reported = []\n")(site)


PLANTS: Final = (
    Plant(
        "metrics-pushed",
        "metrics-pushed",
        _chore(_PUSH, 220.0, _SERVED),
        (*_PYTHON, "G702", "G220"),
        _QUIET,
        at_line=True,
    ),
    Plant(
        "rows-committed", "databases", _chore(_COMMIT, 45.0, _BASE), _FILES, _QUIET, at_line=True
    ),
    Plant(
        "spread-of-a-window",
        "window-statistics",
        _chore(
            "_spread = _statistics.pstdev(_window)",
            0.52,
            "import statistics as _statistics\n_window = [0.37 * _at for _at in range({n})]\n",
        ),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "bar-redrawn",
        "progress-bars",
        _chore("for _done in range({n}):\n    _drawn(_done, {n})", 6.0, _BAR),
        _FILES,
        _QUIET,
        at_line=True,
    ),
    Plant(
        "callers-looked-up",
        "stacks-inspected",
        _chore(_INSPECT, 12000.0, "import inspect as _inspect\n_callers = []\n"),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "calls-checked",
        "call-checks",
        _chore(_BIND, 22.0, _BOUND, early=True),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "schedule-made-again",
        "schedules",
        _chore(_RATES, 0.1, "import math as _math\n", early=True),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "warned-each-step",
        "warnings",
        _chore(_WARN, 18.0, _TOLD, early=True),
        (*_FILES, "G219"),
        at_line=True,
    ),
    Plant(
        "loop-of-events",
        "event-loops",
        _chore(_SEND, 105.0, f"{_ASYNC}\n\n_sendings = []\n"),
        (*_PYTHON, "G702"),
        _QUIET,
        at_line=True,
    ),
    Plant(
        "settings-reloaded",
        "reloading",
        _chore(_RELOAD, 97.0, _LOADED),
        (*_PYTHON, "G215"),
        at_line=True,
    ),
    Plant(
        "plays-picked",
        "deques",
        _chore(
            "_picked = [_plays[_draws.randrange(len(_plays))] for _ in range({n})]",
            1.75,
            _MEMORY,
            early=True,
        ),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "edits-counted",
        "text-metrics",
        _chore("_edits = _distance(_said, 'furious sleep')", 5.2, _DISTANCE, early=True),
        (*_PYTHON, "G203"),
        at_line=True,
    ),
    Plant(
        "process-maps-read",
        "process-tables",
        _chore(_MAPS, 520.0, "_maps_read = []\n"),
        (*_PYTHON, "G215"),
        at_line=True,
    ),
    Plant(
        "report-now-and-then",
        "occasional-reports",
        _reported,
        (*_PYTHON, "G705"),
        at_line=True,
    ),
    Plant(
        "model-kept-each-step",
        "snapshots",
        _snapshot,
        (*_PYTHON, "G701", "G201"),
        ("no-checkpoint", "checkpoint-every"),
        at_line=True,
    ),
)
