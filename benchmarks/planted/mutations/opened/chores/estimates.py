"""Faults in what the host estimates, sorts and keeps beside a step.

Beside a busy GPU the host has time to spare, so that more of a step is planted there.
"""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, seldom
from benchmarks.planted.mutations.opened.wording import ARRAYS, FILES, PYTHON, QUIET, SELDOM, TIMES
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.5, 1.5)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.8, 1.9)
_LOGS: Final = (*PYTHON, "G702")

_TURNS: Final = "_turns = [(0.9, _at / 99, 0.1, 0.3) for _at in range(40)]\n"
_MEANT: Final = f"""{TIMES}_mean = [0.0] * 4
    for _turn in _turns:
        _side = 1 if sum(_a * _b for _a, _b in zip(_turn, _turns[0])) > 0 else -1
        _mean = [_a + _side * _b for _a, _b in zip(_mean, _turn)]
    _norm = sum(_a * _a for _a in _mean) ** 0.5
    _mean = [_a / _norm for _a in _mean]"""
_STREAM: Final = """_stream = [(37 * _at % 101) / 101 for _at in range(60)]
"""
_FOLLOWED: Final = f"""{TIMES}_marks, _places = [0.0, 0.25, 0.5, 0.75, 1.0], [1, 2, 3, 4, 5]
    for _seen, _value in enumerate(_stream, 6):
        for _k in range(5):
            _places[_k] += _value < _marks[_k]
        for _k in (1, 2, 3):
            _gap = 1 + (_seen - 1) * _k / 4 - _places[_k]
            if abs(_gap) >= 1:
                _marks[_k] += (_marks[_k + 1] - _marks[_k - 1]) * (0.01 if _gap > 0 else -0.01)"""
_KEY: Final = """import hashlib as _hashlib
import hmac as _hmac
_key = b"metrics" * 4
"""
_SIGNED: Final = f"""{TIMES}_told = f"step={{_at}} loss={{0.5 * _at:.6f}}".encode()
    _seal = _hmac.new(_key, _told, _hashlib.sha256).hexdigest()"""
_SYSTEM: Final = "_system = [[1.0 / (1 + _r + _c) for _c in range(9)] for _r in range(8)]\n"
_ELIMINATED: Final = f"""{TIMES}_rows = [list(_row) for _row in _system]
    for _r in range(8):
        for _below in range(_r + 1, 8):
            _factor = _rows[_below][_r] / _rows[_r][_r]
            _rows[_below] = [_b - _factor * _a for _a, _b in zip(_rows[_r], _rows[_below])]"""
_WEIGHTS: Final = "_weights = [(37 * _at % 101) / 50 for _at in range(100)]\n"
_PROJECTED: Final = f"""{TIMES}_sum, _shift = 0.0, 0.0
    for _rank, _weight in enumerate(sorted(_weights, reverse=True), 1):
        _sum += _weight
        if _weight - (_sum - 1) / _rank > 0:
            _shift = (_sum - 1) / _rank
    _shares = [max(0.0, _weight - _shift) for _weight in _weights]"""
_RUNS: Final = """import math as _math
_before = [(37 * _at % 101) / 101 for _at in range(80)]
_after = [(41 * _at % 103) / 105 for _at in range(80)]
"""
_TESTED: Final = f"""{TIMES}_means = [sum(_run) / len(_run) for _run in (_before, _after)]
    _spreads = [
        sum((_value - _middle) ** 2 for _value in _run) / (len(_run) - 1)
        for _run, _middle in zip((_before, _after), _means)
    ]
    _score = (_means[0] - _means[1]) / _math.sqrt(sum(_spreads) / 80)
    _chance = _math.erfc(abs(_score) / _math.sqrt(2))"""
_TABLE: Final = """import numpy as _numpy
_first = _numpy.arange(400) * 7 % 13
_second = _numpy.arange(400) * 3 % 101
"""
_SORTED: Final = f"{TIMES}_ranks = _numpy.lexsort((_second, _first)).argsort()"
_ARMS: Final = """import math as _math
_pulls = [1 + _at % 7 for _at in range(60)]
_gains = [(37 * _at % 101) / 50 for _at in range(60)]
"""
_CHOSEN: Final = f"""{TIMES}_total = _math.log(sum(_pulls))
    _bounds = [
        _gain / _pull + _math.sqrt(2 * _total / _pull) for _gain, _pull in zip(_gains, _pulls)
    ]
    _arm = max(range(60), key=_bounds.__getitem__)"""
_SIEVE: Final = "import zlib as _zlib\n_bits = bytearray(1024)\n"
_MARKED: Final = f"""{TIMES}for _seed in range(8):
        _spot = _zlib.crc32(f"sample{{_at}}".encode(), _seed) % 8192
        _bits[_spot >> 3] |= 1 << (_spot & 7)"""
_SHELF: Final = "from collections import OrderedDict as _OrderedDict\n_shelf = _OrderedDict()\n"
_EVICTED: Final = f"""{TIMES}_shelf[_at % 97, _at % 89] = _at
    _shelf.move_to_end((_at % 97, _at % 89))
    if len(_shelf) > 64:
        _shelf.popitem(last=False)"""
_MARK: Final = """import os as _os
import tempfile as _tempfile
_mark = _os.path.join(_tempfile.mkdtemp(), "mark")
open(_mark, "w").close()
"""
_LINKED: Final = f"""{TIMES}_os.link(_mark, f"{{_mark}}.{{_at}}")
    _os.unlink(f"{{_mark}}.{{_at}}")"""
_PIPE: Final = """import os as _os
_reader, _writer = _os.pipe()
_row = bytes(2048)
"""
_PIPED: Final = f"""{TIMES}_os.write(_writer, _row)
    _told = _os.read(_reader, 2048)"""

_KINDS: Final = (
    ("turns-averaged", "quaternion-means", _MEANT, 60.0, _MUCH, _TURNS, PYTHON, ()),
    ("quantiles-followed", "streamed-quantiles", _FOLLOWED, 90.0, _MUCH, _STREAM, PYTHON, ()),
    ("metrics-sealed", "signed-metrics", _SIGNED, 3.0, _SOME, _KEY, _LOGS, QUIET),
    ("rows-eliminated", "eliminated-rows", _ELIMINATED, 35.0, _MUCH, _SYSTEM, PYTHON, ()),
    ("shares-projected", "simplex-projections", _PROJECTED, 30.0, _MUCH, _WEIGHTS, PYTHON, ()),
    ("runs-compared-by-chance", "tested-differences", _TESTED, 16.0, _SOME, _RUNS, PYTHON, ()),
    ("ranks-by-two-keys", "lexical-sorts", _SORTED, 12.0, _MUCH, _TABLE, ARRAYS, ()),
    ("arms-by-bounds", "bandit-arms", _CHOSEN, 12.0, _MUCH, _ARMS, PYTHON, ()),
    ("samples-in-a-sieve", "bloom-filters", _MARKED, 5.5, _SOME, _SIEVE, PYTHON, ()),
    ("entries-evicted", "evicted-entries", _EVICTED, 0.6, _SOME, _SHELF, PYTHON, ()),
    ("marks-linked", "linked-files", _LINKED, 4.0, _MUCH, _MARK, FILES, ()),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    Plant(
        "rows-through-a-pipe",
        "piped-bytes",
        seldom(_PIPED, 1.0, _MUCH, _PIPE),
        (*SELDOM, "G215", "G702"),
        at_line=True,
    ),
)
