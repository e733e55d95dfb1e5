"""Faults in how single samples are made."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.amounts import in_samples
from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
)
from benchmarks.planted.mutations.parts import batch_of, data_of, flat
from benchmarks.planted.mutations.plant import Plant, Site, at_top
from benchmarks.planted.places import with_keywords
from benchmarks.planted.source import Change, Replacement

_SHARE: Final = (0.6, 0.6)  # of a healthy step
_READ: Final = (*FEW, "G106", "G107")


_JOINED: Final = """import itertools as _itertools
import torch as _torch


class _Joined:
    def __init__(self, loader):
        self.loader = loader
        self.dataset = loader.dataset

    def __len__(self):
        return max(1, len(self.loader) // {batch})

    def __iter__(self):
        singles = iter(self.loader)
        for _ in range(len(self)):
            rows = list(_itertools.islice(singles, {batch}))
            yield [_torch.cat(parts) for parts in zip(*rows)]
"""


def _joined(site: Site) -> Sequence[Change] | None:
    """Have the loader give single samples, of which batches are joined in the training process."""
    found = data_of(site)
    if found is None or len(found[0].args) > 1 or "collate_fn" in site.source.segment(found[0]):
        return None
    keywords = {keyword.arg: keyword.value for keyword in found[0].keywords}
    if "batch_size" not in keywords or None in keywords:
        return None
    size = flat(site, keywords["batch_size"])
    single = with_keywords(site.source, found[0], {"batch_size": "1"}).text
    if not size.isdecimal():
        size = str(batch_of(site))
    return [
        at_top(site, _JOINED.replace("{batch}", size)),
        Replacement(found[0], f"_Joined({single})"),
    ]


_PIXELS: Final = """import colorsys as _colorsys
_pixels = [(_at % 7 / 7, _at % 11 / 11, _at % 13 / 13) for _at in range({n})]
"""
_CONVERTED: Final = "_hues = [_colorsys.rgb_to_hsv(*_pixel)[0] for _pixel in _pixels]"
_OTHERS: Final = """import numpy as _numpy
_others = _numpy.random.default_rng(1).random((64, 3, 32, 32), dtype="float32")
_drawn = _numpy.random.default_rng(2)
"""
_MIXED: Final = """_mixture = _others[index % 64]
for _ in range({n}):
    _part = _drawn.beta(0.4, 0.4)
    _mixture = _part * _mixture + (1 - _part) * _others[_drawn.integers(64)]"""
_SERIES: Final = "_series = [0.1 * (_at % 97) for _at in range({n} + 24)]\n"
_WINDOWS: Final = "_windows = [_series[_at : _at + 24] for _at in range({n})]"
_PACKED: Final = """import base64 as _base64
import json as _json
_encoded = _base64.b64encode(_json.dumps([{"x": _at, "y": 0.5} for _at in range({n})]).encode())
"""
_UNPACKED: Final = "_decoded = _json.loads(_base64.b64decode(_encoded))"
_CHANCE: Final = """import random as _random
_chance = _random.Random(1)
"""
_NOISED: Final = "_noise = [_chance.gauss(0.0, 0.1) for _ in range({n})]"
_CHANCES: Final = """import numpy as _numpy
_chances = _numpy.full({n}, 1 / {n})
"""
_CHOSEN: Final = "_chosen = _numpy.random.choice({n}, p=_chances)"
_SOUND: Final = """import numpy as _numpy
_sound = _numpy.random.default_rng(1).random({n})
_instants = _numpy.linspace(0, {n}, int({n} * 1.1) + 1)
"""
_RESAMPLED: Final = "_resampled = _numpy.interp(_instants, _numpy.arange({n}), _sound)"
_SIGNAL: Final = "_signal_in = [0.1 * (_at % 89) for _at in range({n})]\n"
_FILTERED: Final = """_level, _filtered = 0.0, []
for _value in _signal_in:
    _level = 0.97 * _level + 0.03 * _value
    _filtered.append(_value - _level)"""
_ROWS: Final = """import numpy as _numpy
_rows = [[0.5 * _at, 1.0, 2.0, 3.0] for _at in range({n})]
"""
_TABLE: Final = "_values = _numpy.array(_rows, dtype='float32')[index % {n}]"
_DATABASE: Final = """import os as _os
import sqlite3 as _sqlite3
import tempfile as _tempfile
_database = _os.path.join(_tempfile.mkdtemp(), "samples.db")
with _sqlite3.connect(_database) as _link:
    _link.execute("create table samples (number integer primary key, label integer)")
    _link.executemany("insert into samples values (?, ?)", [(_at, _at % 10) for _at in range(500)])
_link.close()
"""
_QUERIED: Final = """for _row in range({n}):
    _link = _sqlite3.connect(_database)
    _label = _link.execute(
        "select label from samples where number = ?", ((index + _row) % 500,)
    ).fetchone()
    _link.close()"""
_PROGRAM: Final = "import subprocess as _subprocess\n"
_DECODED: Final = "for _ in range({n}):\n    _subprocess.run(['/bin/true'], check=True)"

_KINDS: Final = (
    ("colours-converted", "colours", _CONVERTED, 0.85, _PIXELS, MADE),
    ("mixed-with-others", "mixtures", _MIXED, 9.0, _OTHERS, MADE),
    ("windows-cut-again", "windows-of-series", _WINDOWS, 0.4, _SERIES, MADE),
    ("texts-of-bytes", "encoded-texts", _UNPACKED, 0.55, _PACKED, MADE),
    ("noise-drawn-singly", "noise-by-value", _NOISED, 0.5, _CHANCE, MADE),
    ("chosen-by-weights", "weighted-choices", _CHOSEN, 0.01, _CHANCES, (*MADE, "G114")),
    ("sounds-resampled", "resampled-sounds", _RESAMPLED, 0.02, _SOUND, MADE),
    ("filtered-in-a-loop", "recursive-filters", _FILTERED, 0.07, _SIGNAL, MADE),
    ("table-of-lists-again", "tables-of-lists", _TABLE, 0.22, _ROWS, MADE),
    ("queried-for-each", "sample-queries", _QUERIED, 75.0, _DATABASE, (*_READ, "G117")),
    ("made-by-a-program", "programs-run", _DECODED, 1200.0, _PROGRAM, (*_READ, "G117", "G108")),
)
PLANTS: Final = (
    *(
        Plant(
            name, family, in_samples(text, unit, _SHARE, top), codes, MORE, "loader", at_line=True
        )
        for name, family, text, unit, top, codes in _KINDS
    ),
    Plant(
        "joined-from-singles",
        "single-samples",
        _joined,
        (*FEW, "G110", "G111", "G115", "G203", "G202"),
        MORE,
        "loader",
        at_line=True,
    ),
)
