"""Faults in what the host writes down and works out beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import LITTLE, MOST, MUCH, SOME, beside, seldom
from benchmarks.planted.mutations.opened.wording import (
    ARRAYS,
    FILES,
    PYTHON,
    QUIET,
    SELDOM,
    TIMES,
)
from benchmarks.planted.mutations.plant import Plant

_SAVED: Final = (*FILES, "G701")

_ZONE: Final = "import datetime as _datetime\n"
_MOMENTS: Final = f"{TIMES}_moment = _datetime.datetime.now().astimezone().isoformat()"
_RULED: Final = f"""{TIMES}_row = " | ".join(
        str(_cell).ljust(12) for _cell in ("step", _at, "loss", 0.5, "rate", 0.1)
    )"""
_LISTS: Final = f"_past = list(range(60))\n{TIMES}_past = _past[1:] + [_at]"
_LOSSES: Final = """import math as _math
_losses = [0.5 + _at % 7 for _at in range({n})]
"""
_CHECKED: Final = "_fine = all(_math.isfinite(_loss) for _loss in _losses)"
_OBJECTS: Final = "import gc as _gc\nimport torch as _torch\n"
_COUNTED: Final = """_alive = 0
for _ in range({n}):
    _alive = sum(type(_object) is _torch.Tensor for _object in _gc.get_objects(0))"""
_PATHS: Final = "import os as _os\n"
_EXPANDED: Final = f"{TIMES}_path = _os.path.expandvars(f'$HOME/runs/{{_at}}/$USER/model.pt')"
_LETTERS: Final = """import base64 as _base64
_figure = bytes(range(256)) * 40
"""
_PACKED: Final = f"{TIMES}_packed = _base64.b85encode(_figure[:512])"
_GRID: Final = "_grid = [[0.5 + _x - _y for _x in range(12)] for _y in range(12)]\n"
_MULTIPLIED: Final = f"""{TIMES}_grown = [
        [sum(a * b for a, b in zip(_row, _column)) for _column in zip(*_grid)] for _row in _grid
    ]"""
_POINTS: Final = "_points = [(7919 * _at % 997, 104729 * _at % 991) for _at in range(200)]\n"
_HULL: Final = f"""{TIMES}_hull = []
    for _point in sorted(_points):
        while len(_hull) > 1 and (_hull[-1][0] - _hull[-2][0]) * (_point[1] - _hull[-2][1]) <= (
            _hull[-1][1] - _hull[-2][1]
        ) * (_point[0] - _hull[-2][0]):
            _hull.pop()
        _hull.append(_point)"""
_SHELL: Final = "import shlex as _shlex\n"
_SPLIT: Final = f"{TIMES}_words = _shlex.split('train --rate 0.1 --name \"first run\"')"
_READER: Final = "import ast as _ast\n"
_LITERALS: Final = f"""{TIMES}_read = _ast.literal_eval("{{'loss': 0.5, 'sizes': [1, 2, 3]}}")"""
_CHAIN: Final = """import collections as _collections
_chain = _collections.ChainMap(*({f"part{_at}": _at} for _at in range(20)))
"""
_LAYERED: Final = f"{TIMES}_value = _chain[f'part{{_at % 20}}']"
_WEB: Final = "from urllib.parse import urlsplit as _urlsplit\n"
_ADDRESSES: Final = f"{TIMES}_host = _urlsplit(f'http://data{{_at}}.org/a?b={{_at}}#c').netloc"
_ARRAY: Final = "import numpy as _numpy\n_levels = _numpy.ones({n})\n"
_STROLLED: Final = "_level = 0.0\nfor _value in _levels:\n    _level = 0.9 * _level + 0.1 * _value"
_SQUARE: Final = "import numpy as _numpy\n_square = _numpy.random.default_rng(1).random((24, 24))\n"
_FACTORED: Final = f"{TIMES}_parts = _numpy.linalg.svd(_square)"
_PAIRS: Final = "import numpy as _numpy\n_pairs = _numpy.random.default_rng(1).random((2, 2000))\n"
_JOINT: Final = f"{TIMES}_joint = _numpy.histogram2d(*_pairs, bins=20)"
_SCRATCH: Final = "import tempfile as _tempfile\n"
_SCRATCHED: Final = f"""{TIMES}with _tempfile.NamedTemporaryFile("w") as _scratch:
        _scratch.write("loss 0.5")"""
_FLAGS: Final = """import pathlib as _pathlib
import tempfile as _tempfile
_flag = _pathlib.Path(_tempfile.mkdtemp(), "running")
"""
_TOUCHED: Final = f"{TIMES}_flag.touch()\n    _flag.unlink()"
_COPY: Final = """import os as _os
import shutil as _shutil
import tempfile as _tempfile
_best = _os.path.join(_tempfile.mkdtemp(), "best.pt")
with open(_best, "wb") as _file:
    _file.write(bytes(200_000))
"""
_DOUBLED: Final = f"{TIMES}_shutil.copyfile(_best, _best + '.copy')"
_STACK: Final = "import contextlib as _contextlib\n"
_STACKED: Final = f"""{TIMES}with _contextlib.ExitStack() as _stack:
        for _ in range(10):
            _stack.enter_context(_contextlib.nullcontext())"""
_STATE: Final = """import dataclasses as _dataclasses
_State = _dataclasses.make_dataclass("_State", [("step", int), ("loss", float), ("rate", float)])
_state = _State(0, 0.5, 0.1)
"""
_REPLACED: Final = f"{TIMES}_later = _dataclasses.replace(_state, step=_at)"
_SIEVED: Final = f"""{TIMES}_first = [
        _number for _number in range(2, 100) if all(_number % _by for _by in range(2, _number))
    ]"""
_QUEENS: Final = "import itertools as _itertools\n"
_TRIED: Final = f"""{TIMES}_best_tour = min(
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
    ("moments-written-out", "zoned-times", _MOMENTS, 4.0, SOME, _ZONE, PYTHON, QUIET),
    ("table-ruled-by-hand", "ruled-tables", _RULED, 1.7, MUCH, "", PYTHON, QUIET),
    ("lists-joined-again", "joined-lists", _LISTS, 0.35, SOME, "", PYTHON, ()),
    ("losses-checked-singly", "checked-lists", _CHECKED, 0.045, MUCH, _LOSSES, PYTHON, ()),
    ("objects-counted-again", "counted-objects", _COUNTED, 10.0, MUCH, _OBJECTS, PYTHON, ()),
    ("paths-expanded", "expanded-paths", _EXPANDED, 5.0, LITTLE, _PATHS, PYTHON, ()),
    ("figures-in-letters", "packed-figures", _PACKED, 38.0, SOME, _LETTERS, PYTHON, QUIET),
    ("matrices-of-lists", "listed-matrices", _MULTIPLIED, 150.0, MOST, _GRID, PYTHON, ()),
    ("hull-of-points", "hulls", _HULL, 110.0, SOME, _POINTS, PYTHON, ()),
    ("commands-split-again", "split-commands", _SPLIT, 20.0, MUCH, _SHELL, PYTHON, ()),
    ("literals-read-again", "read-literals", _LITERALS, 16.0, SOME, _READER, PYTHON, ()),
    ("settings-in-layers", "layered-settings", _LAYERED, 2.3, MUCH, _CHAIN, PYTHON, ()),
    ("addresses-split", "split-addresses", _ADDRESSES, 4.5, LITTLE, _WEB, PYTHON, ()),
    ("array-walked-by-hand", "walked-arrays", _STROLLED, 0.16, MOST, _ARRAY, ARRAYS, ()),
    ("square-factored-on-host", "host-factors", _FACTORED, 110.0, MUCH, _SQUARE, ARRAYS, ()),
    ("scratch-files-made", "scratch-files", _SCRATCHED, 48.0, MUCH, _SCRATCH, FILES, QUIET),
    ("flags-touched", "touched-flags", _TOUCHED, 12.0, SOME, _FLAGS, FILES, ()),
    ("contexts-stacked", "stacked-contexts", _STACKED, 11.0, SOME, _STACK, PYTHON, ()),
    ("state-replaced-again", "replaced-states", _REPLACED, 1.6, MUCH, _STATE, PYTHON, ()),
    ("primes-sieved", "sieves", _SIEVED, 110.0, MOST, "", PYTHON, ()),
    ("inserted-in-order", "ordered-insertions", _INSERTED, 0.8, SOME, _TOPICS, PYTHON, ()),
)
_OCCASIONS: Final = (
    ("pairs-spread-now-and-then", "joint-spreads", _JOINT, 200.0, MUCH, _PAIRS, SELDOM),
    ("tours-tried-now-and-then", "tried-tours", _TRIED, 24.0, SOME, _QUEENS, SELDOM),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    *(
        Plant(name, family, seldom(text, unit, share, top), codes, QUIET, at_line=True)
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
