"""Faults in how signals, strands, notes and records of a sample are made."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import in_samples
from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
)
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.3, 1.3)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.55, 1.6)
_WORDS: Final = (*FEW, "G109", "G108")

_WAVE: Final = "_wave = [(_at * _at % 17) / 17 for _at in range(128)]\n"
_LEVELS: Final = """for _ in range({n}):
    _low = _wave
    while len(_low) > 1:
        _high = [a - b for a, b in zip(_low[::2], _low[1::2])]
        _low = [(a + b) / 2 for a, b in zip(_low[::2], _low[1::2])]"""
_DAYS: Final = "import datetime as _datetime\nimport math as _math\n"
_SEASONS: Final = """for _at in range({n}):
    _day = _datetime.date(2020, 1, 1) + _datetime.timedelta(days=_at)
    _turn = 2 * _math.pi * _day.timetuple().tm_yday / 366
    _season = (_math.sin(_turn), _math.cos(_turn))"""
_STROKE: Final = "_knots = ((0.0, 0.0), (9.0, 3.0), (4.0, 8.0), (1.0, 2.0))\n"
_BENT: Final = """for _at in range({n}):
    _t = _at / {n}
    _shares = ((1 - _t) ** 3, 3 * _t * (1 - _t) ** 2, 3 * _t * _t * (1 - _t), _t**3)
    _dot = [sum(_s * _k[_axis] for _s, _k in zip(_shares, _knots)) for _axis in (0, 1)]"""
_SHINGLES: Final = "_shingles = [hash(('shingle', _at)) & 0xFFFFFF for _at in range(60)]\n"
_SIGNED: Final = """for _at in range({n}):
    _least = min((_shingle * (2 * _at + 1) + 7) % 16777213 for _shingle in _shingles)"""
_STRAND: Final = """_strand = "ACGTTGCAAGTC" * 10
_codons = {a + b + c: a for a in "ACGT" for b in "ACGT" for c in "ACGT"}
"""
_TRANSLATED: Final = """for _ in range({n}):
    _protein = "".join(_codons[_strand[_at : _at + 3]] for _at in range(0, 120, 3))"""
_NOTES: Final = "_notes = [(_at * 7 % 88, _at, _at + 5) for _at in range(20)]\n"
_ROLLED: Final = """for _ in range({n}):
    _roll = [[0] * 26 for _ in range(88)]
    for _key, _begin, _end in _notes:
        for _tick in range(_begin, _end):
            _roll[_key][_tick] = 1"""
_NUMPY: Final = "import numpy as _numpy\n"
_BANK: Final = """for _ in range({n}):
    _edges = 700 * (10 ** (_numpy.linspace(0, 2800, 42) / 2595) - 1)
    _bins = _numpy.linspace(0, 8000, 129)[:, None]
    _up = (_bins - _edges[:-2]) / (_edges[1:-1] - _edges[:-2])
    _bank = _numpy.maximum(0, _numpy.minimum(_up, 1 - _up))"""
_SEEDED: Final = """for _at in range({n}):
    _shift = _numpy.random.default_rng(_at).normal()"""
_RECORD: Final = """import json as _json
_row = {"name": "sample", "box": [0.25] * 20, "tags": ["a", "b", "c"]}
"""
_DETOUR: Final = "for _ in range({n}):\n    _copy = _json.loads(_json.dumps(_row))"

_KINDS: Final = (
    ("waves-in-levels", "wave-levels", _LEVELS, 42.0, _MUCH, _WAVE, MADE),
    ("days-as-turns", "season-features", _SEASONS, 3.4, _SOME, _DAYS, MADE),
    ("strokes-bent-again", "bent-strokes", _BENT, 4.5, _MUCH, _STROKE, MADE),
    ("shingles-signed", "least-hashes", _SIGNED, 13.0, _SOME, _SHINGLES, _WORDS),
    ("strands-translated", "translated-strands", _TRANSLATED, 20.0, _MUCH, _STRAND, _WORDS),
    ("notes-on-a-roll", "note-rolls", _ROLLED, 42.0, _SOME, _NOTES, MADE),
    ("filters-made-again", "filter-banks", _BANK, 62.0, _MUCH, _NUMPY, MADE),
    ("chances-seeded-again", "seeded-chances", _SEEDED, 20.0, _MUCH, _NUMPY, MADE),
    ("records-through-text", "text-detours", _DETOUR, 23.0, _SOME, _RECORD, _WORDS),
)
PLANTS: Final = tuple(
    Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
    for name, family, text, unit, share, top, codes in _KINDS
)
