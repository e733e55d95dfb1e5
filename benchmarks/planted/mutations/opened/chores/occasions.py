"""Faults that only some steps meet, or that wait."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.wording import (
    PYTHON,
    QUIET,
)
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

_SHARE: Final = 0.5  # of a healthy step
_NOW_AND_THEN: Final = (*PYTHON, "G705")
_ROUND: Final = 10  # steps from one occasion to the next


def _chore(text: str, unit_us: float, top: str = "", *, early: bool = False) -> ChangeOf:
    """Do something ``{n}`` times in each step."""

    def change(site: Site) -> Sequence[Change] | None:
        number = str(amount(site, unit_us, _SHARE))
        imports, body = (piece.replace("{n}", number) for piece in (top, text))
        return (before_backward if early else after_step)(body, imports)(site)

    return change


def _occasion(text: str, unit_us: float, top: str = "") -> ChangeOf:
    """Do something ``{n}`` times every few steps."""

    def change(site: Site) -> Sequence[Change] | None:
        number = str(amount(site, unit_us, _ROUND * _SHARE))
        rows = "".join(f"\n    {row}" for row in text.replace("{n}", number).splitlines())
        body = f"_rounds.append(0)\nif len(_rounds) % {_ROUND} == 0:{rows}"
        return after_step(body, f"_rounds = []\n{top}".replace("{n}", number))(site)

    return change


def _paced(site: Site) -> Sequence[Change] | None:
    """Hold steps to a pace by asking for the time until it is due."""
    seconds = f"{max(0.0005, _SHARE * site.step_s):.5f}"
    text = f"_due = _time.perf_counter() + {seconds}\nwhile _time.perf_counter() < _due:\n    pass"
    return after_step(text, "import time as _time\n")(site)


def _contended(site: Site) -> Sequence[Change] | None:
    """Wait for a lock that another thread mostly holds."""
    seconds = f"{max(0.0005, 0.8 * site.step_s):.5f}"
    return before_backward(
        "with _shared:\n    _steps_seen.append(0)", _HOLDER.replace("{seconds}", seconds)
    )(site)


def _of_model(text: str, every: int, imports: str = "") -> ChangeOf:
    """Do something with ``{model}``, called with ``{arguments}``, every so many steps."""

    def change(site: Site) -> Sequence[Change] | None:
        step = site.step
        hit = model_call(site.source, step) if step is not None else None
        if step is None or hit is None or hit[1].keywords:
            return None
        arguments = [" ".join(site.source.segment(argument).split()) for argument in hit[1].args]
        if any(argument.startswith("*") for argument in arguments):
            return None
        model = site.source.segment(hit[1].func)
        rows = text.replace("{model}", model).replace("{arguments}", ", ".join(arguments))
        body = f"_turns.append(0)\nif len(_turns) % {every} == 0:" + "".join(
            f"\n    {row}" for row in rows.splitlines()
        )
        line = (step.after.end_lineno or step.after.lineno) + 1
        return [
            at_top(site, f"{imports}_turns = []\n"),
            Insertion(line, body, step.after.col_offset),
        ]

    return change


_JOINED: Final = """import queue as _queue
import threading as _threading
_records = _queue.Queue()


def _consume():
    while True:
        count = _records.get()
        ", ".join(f"{at * 0.37:.3f}" for at in range(count))
        _records.task_done()


_threading.Thread(target=_consume, daemon=True).start()
"""
_HOLDER: Final = """import threading as _threading
import time as _time
_shared = _threading.Lock()
_steps_seen = []


def _hold():
    while True:
        with _shared:
            _time.sleep({seconds})
        _time.sleep(0.0001)


_threading.Thread(target=_hold, daemon=True).start()
"""
_DRAWN: Final = """from PIL import Image as _Image
from PIL import ImageDraw as _ImageDraw
_curve_points = [(_at % 600, 200 + 7919 * _at % 97) for _at in range(2000)]
"""
_DRAW: Final = """for _ in range({n}):
    _canvas = _Image.new("RGB", (600, 400), "white")
    _ImageDraw.Draw(_canvas).line(_curve_points, fill="black", width=2)"""
_PACKED: Final = """import gzip as _gzip
_log_text = b"".join(b"step %d: loss %d\\n" % (_at, 7919 * _at % 10007) for _at in range(1000))
"""
_PERCENTILES: Final = """import numpy as _numpy
_seen = _numpy.random.default_rng(1).random({n})
"""
_FITTED: Final = """import numpy as _numpy
_abscissa = _numpy.linspace(0.0, 1.0, {n})
_ordinate = _numpy.cos(9.0 * _abscissa)
"""
_SAVED: Final = """_buffer = _io.BytesIO()
_torch.save({model}.state_dict(), _buffer)
_kept_states[:] = [_buffer.getvalue()]"""
_GENERATED: Final = """with _torch.no_grad():
    for _ in range(8):
        _generated = {model}({arguments})"""

PLANTS: Final = (
    Plant(
        "records-waited-for",
        "joined-queues",
        _chore("_records.put({n})\n_records.join()", 0.35, _JOINED),
        (*PYTHON, "G220", "G702"),
        QUIET,
        at_line=True,
    ),
    Plant("pace-held", "held-pace", _paced, PYTHON, at_line=True),
    Plant("lock-waited-for", "contended-locks", _contended, (*PYTHON, "G220"), at_line=True),
    Plant(
        "curve-drawn-now-and-then",
        "drawn-curves",
        _occasion(_DRAW, 3500.0, _DRAWN),
        (*_NOW_AND_THEN, "G702"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "log-packed-now-and-then",
        "packed-logs",
        _occasion("for _ in range({n}):\n    _packed = _gzip.compress(_log_text)", 1100.0, _PACKED),
        (*_NOW_AND_THEN, "G702", "G215"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "percentiles-now-and-then",
        "percentiles",
        _occasion("_quartiles = _numpy.percentile(_seen, [25, 50, 75])", 0.026, _PERCENTILES),
        (*_NOW_AND_THEN, "G203"),
        at_line=True,
    ),
    Plant(
        "trend-fitted-now-and-then",
        "fitted-trends",
        _occasion("_trend = _numpy.polyfit(_abscissa, _ordinate, 5)", 0.21, _FITTED),
        (*_NOW_AND_THEN, "G203"),
        at_line=True,
    ),
    Plant(
        "state-kept-in-memory",
        "states-in-memory",
        _of_model(_SAVED, 2, "import io as _io\nimport torch as _torch\n_kept_states = []\n"),
        (*_NOW_AND_THEN, "G701"),
        ("no-checkpoint", "checkpoint-every"),
        at_line=True,
    ),
    Plant(
        "examples-generated-now-and-then",
        "generated-examples",
        _of_model(_GENERATED, 8, "import torch as _torch\n"),
        (*_NOW_AND_THEN, "G703", "G517", "G520"),
        ("no-evaluation", "evaluate-every"),
        at_line=True,
    ),
)
