"""Faults in what the host writes down and works out beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import LITTLE, MOST, MUCH, SOME, beside, seldom
from benchmarks.planted.mutations.plant import Plant

_PYTHON: Final = ("G202", "G214", "G219")
_ARRAYS: Final = (*_PYTHON, "G203")
_FILES: Final = (*_PYTHON, "G215", "G702")
_SAVED: Final = (*_FILES, "G701")
_SELDOM: Final = (*_ARRAYS, "G705")
_QUIET: Final = ("no-logging", "log-every")
_TIMES: Final = "for _at in range({n}):\n    "

_ZONE: Final = "import datetime as _datetime\n"
_MOMENTS: Final = f"{_TIMES}_moment = _datetime.datetime.now().astimezone().isoformat()"
_RULED: Final = f"""{_TIMES}_row = " | ".join(
        str(_cell).ljust(12) for _cell in ("step", _at, "loss", 0.5, "rate", 0.1)
    )"""
_LISTS: Final = f"_past = list(range(60))\n{_TIMES}_past = _past[1:] + [_at]"
_LOSSES: Final = """import math as _math
_losses = [0.5 + _at % 7 for _at in range({n})]
"""
_CHECKED: Final = "_fine = all(_math.isfinite(_loss) for _loss in _losses)"
_OBJECTS: Final = "import gc as _gc\nimport torch as _torch\n"
_COUNTED: Final = """_alive = 0
for _ in range({n}):
    _alive = sum(type(_object) is _torch.Tensor for _object in _gc.get_objects(0))"""
_PATHS: Final = "import os as _os\n"
_EXPANDED: Final = f"{_TIMES}_path = _os.path.expandvars(f'$HOME/runs/{{_at}}/$USER/model.pt')"
_LETTERS: Final = """import base64 as _base64
_figure = bytes(range(256)) * 40
"""
_PACKED: Final = f"{_TIMES}_packed = _base64.b85encode(_figure[:512])"
_GRID: Final = "_grid = [[0.5 + _x - _y for _x in range(12)] for _y in range(12)]\n"
_MULTIPLIED: Final = f"""{_TIMES}_grown = [
        [sum(a * b for a, b in zip(_row, _column)) for _column in zip(*_grid)] for _row in _grid
    ]"""
_POINTS: Final = "_points = [(7919 * _at % 997, 104729 * _at % 991) for _at in range(200)]\n"
_HULL: Final = f"""{_TIMES}_hull = []
    for _point in sorted(_points):
        while len(_hull) > 1 and (_hull[-1][0] - _hull[-2][0]) * (_point[1] - _hull[-2][1]) <= (
            _hull[-1][1] - _hull[-2][1]
        ) * (_point[0] - _hull[-2][0]):
            _hull.pop()
        _hull.append(_point)"""
_SHELL: Final = "import shlex as _shlex\n"
_SPLIT: Final = f"{_TIMES}_words = _shlex.split('train --rate 0.1 --name \"first run\"')"
_READER: Final = "import ast as _ast\n"
_LITERALS: Final = f"""{_TIMES}_read = _ast.literal_eval("{{'loss': 0.5, 'sizes': [1, 2, 3]}}")"""
_CHAIN: Final = """import collections as _collections
_chain = _collections.ChainMap(*({f"part{_at}": _at} for _at in range(20)))
"""
_LAYERED: Final = f"{_TIMES}_value = _chain[f'part{{_at % 20}}']"
_WEB: Final = "from urllib.parse import urlsplit as _urlsplit\n"
_ADDRESSES: Final = f"{_TIMES}_host = _urlsplit(f'http://data{{_at}}.org/a?b={{_at}}#c').netloc"
_ARRAY: Final = "import numpy as _numpy\n_levels = _numpy.ones({n})\n"
_STROLLED: Final = "_level = 0.0\nfor _value in _levels:\n    _level = 0.9 * _level + 0.1 * _value"
_SQUARE: Final = "import numpy as _numpy\n_square = _numpy.random.default_rng(1).random((24, 24))\n"
_FACTORED: Final = f"{_TIMES}_parts = _numpy.linalg.svd(_square)"
_PAIRS: Final = "import numpy as _numpy\n_pairs = _numpy.random.default_rng(1).random((2, 2000))\n"
_JOINT: Final = f"{_TIMES}_joint = _numpy.histogram2d(*_pairs, bins=20)"
_SCRATCH: Final = "import tempfile as _tempfile\n"
_SCRATCHED: Final = f"""{_TIMES}with _tempfile.NamedTemporaryFile("w") as _scratch:
        _scratch.write("loss 0.5")"""
_FLAGS: Final = """import pathlib as _pathlib
import tempfile as _tempfile
_flag = _pathlib.Path(_tempfile.mkdtemp(), "running")
"""
_TOUCHED: Final = f"{_TIMES}_flag.touch()\n    _flag.unlink()"
_COPY: Final = """import os as _os
import shutil as _shutil
import tempfile as _tempfile
_best = _os.path.join(_tempfile.mkdtemp(), "best.pt")
with open(_best, "wb") as _file:
    _file.write(bytes(200_000))
"""
_DOUBLED: Final = f"{_TIMES}_shutil.copyfile(_best, _best + '.copy')"
_STACK: Final = "import contextlib as _contextlib\n"
_STACKED: Final = f"""{_TIMES}with _contextlib.ExitStack() as _stack:
        for _ in range(10):
            _stack.enter_context(_contextlib.nullcontext())"""
_STATE: Final = """import dataclasses as _dataclasses
_State = _dataclasses.make_dataclass("_State", [("step", int), ("loss", float), ("rate", float)])
_state = _State(0, 0.5, 0.1)
"""
_REPLACED: Final = f"{_TIMES}_later = _dataclasses.replace(_state, step=_at)"
_SIEVED: Final = f"""{_TIMES}_first = [
        _number for _number in range(2, 100) if all(_number % _by for _by in range(2, _number))
    ]"""
_QUEENS: Final = "import itertools as _itertools\n"
_TRIED: Final = f"""{_TIMES}_best_tour = min(
        sum(abs(a - b) for a, b in zip(_tour, _tour[1:]))
        for _tour in _itertools.permutations((3, 1, 4, 5))
    )"""
_TOPICS: Final = """import bisect as _bisect
_kept = []
"""
_INSERTED: Final = """_kept.clear()
for _at in range({n}):
    _bisect.insort(_kept, 7919 * _at % 99991)"""

_KINDS: Final = (
    ("moments-written-out", "zoned-times", _MOMENTS, 4.0, SOME, _ZONE, _PYTHON, _QUIET),
    ("table-ruled-by-hand", "ruled-tables", _RULED, 1.7, MUCH, "", _PYTHON, _QUIET),
    ("lists-joined-again", "joined-lists", _LISTS, 0.35, SOME, "", _PYTHON, ()),
    ("losses-checked-singly", "checked-lists", _CHECKED, 0.045, MUCH, _LOSSES, _PYTHON, ()),
    ("objects-counted-again", "counted-objects", _COUNTED, 10.0, MUCH, _OBJECTS, _PYTHON, ()),
    ("paths-expanded", "expanded-paths", _EXPANDED, 5.0, LITTLE, _PATHS, _PYTHON, ()),
    ("figures-in-letters", "packed-figures", _PACKED, 38.0, SOME, _LETTERS, _PYTHON, _QUIET),
    ("matrices-of-lists", "listed-matrices", _MULTIPLIED, 150.0, MOST, _GRID, _PYTHON, ()),
    ("hull-of-points", "hulls", _HULL, 110.0, SOME, _POINTS, _PYTHON, ()),
    ("commands-split-again", "split-commands", _SPLIT, 20.0, MUCH, _SHELL, _PYTHON, ()),
    ("literals-read-again", "read-literals", _LITERALS, 16.0, SOME, _READER, _PYTHON, ()),
    ("settings-in-layers", "layered-settings", _LAYERED, 2.3, MUCH, _CHAIN, _PYTHON, ()),
    ("addresses-split", "split-addresses", _ADDRESSES, 4.5, LITTLE, _WEB, _PYTHON, ()),
    ("array-walked-by-hand", "walked-arrays", _STROLLED, 0.16, MOST, _ARRAY, _ARRAYS, ()),
    ("square-factored-on-host", "host-factors", _FACTORED, 110.0, MUCH, _SQUARE, _ARRAYS, ()),
    ("scratch-files-made", "scratch-files", _SCRATCHED, 48.0, MUCH, _SCRATCH, _FILES, _QUIET),
    ("flags-touched", "touched-flags", _TOUCHED, 12.0, SOME, _FLAGS, _FILES, ()),
    ("contexts-stacked", "stacked-contexts", _STACKED, 11.0, SOME, _STACK, _PYTHON, ()),
    ("state-replaced-again", "replaced-states", _REPLACED, 1.6, MUCH, _STATE, _PYTHON, ()),
    ("primes-sieved", "sieves", _SIEVED, 110.0, MOST, "", _PYTHON, ()),
    ("inserted-in-order", "ordered-insertions", _INSERTED, 0.8, SOME, _TOPICS, _PYTHON, ()),
)
_OCCASIONS: Final = (
    ("pairs-spread-now-and-then", "joint-spreads", _JOINT, 200.0, MUCH, _PAIRS, _SELDOM),
    ("tours-tried-now-and-then", "tried-tours", _TRIED, 24.0, SOME, _QUEENS, _SELDOM),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    *(
        Plant(name, family, seldom(text, unit, share, top), codes, _QUIET, at_line=True)
        for name, family, text, unit, share, top, codes in _OCCASIONS
    ),
    Plant(
        "best-file-doubled",
        "doubled-files",
        beside(_DOUBLED, 250.0, MUCH, _COPY),
        _SAVED,
        ("no-checkpoint", "checkpoint-every"),
        at_line=True,
    ),
)
