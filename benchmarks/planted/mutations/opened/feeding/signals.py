"""Faults in how signals, words and neighbours of a sample are made."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import LITTLE, MOST, MUCH, SOME, in_samples
from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
)
from benchmarks.planted.mutations.plant import Plant

_READ: Final = (*FEW, "G106", "G107")
_WORDS: Final = (*FEW, "G109", "G107")

_SPOKEN: Final = """import math as _math
_loud = [(_at % 200 - 100) / 100 for _at in range({n})]
"""
_COMPANDED: Final = "_quiet = [_math.copysign(_math.log1p(255 * abs(x)) / 5.55, x) for x in _loud]"
_HEARD: Final = """import numpy as _numpy
_heard = _numpy.random.default_rng(1).random(8000)
"""
_FRAMED: Final = """_frames = []
for _at in range({n}):
    _from = 16 * (_at % 400)
    _frames.append(_heard[_from : _from + 400] * _numpy.hanning(400))"""
_FIELDS: Final = """import numpy as _numpy
_bends = _numpy.random.default_rng(1)
"""
_BENT: Final = """for _ in range({n}):
    _field = _bends.normal(size=(2, 24, 24)).cumsum(1).cumsum(2)
    _field = (_field - _field.mean()) / (_field.std() + 1e-6)"""
_COLUMNS: Final = """import itertools as _itertools
_columns = [0.5 + _at for _at in range(16)]
"""
_CROSSED: Final = """for _ in range({n}):
    _crossed = [a * b for a, b in _itertools.combinations_with_replacement(_columns, 2)]"""
_TAGS: Final = """import zlib as _zlib
_tags = [f"field{_at % 40}=value{_at}" for _at in range({n})]
"""
_HASHED: Final = """_buckets = [0] * 1024
for _tag in _tags:
    _buckets[_zlib.crc32(_tag.encode()) % 1024] += 1"""
_LEXICON: Final = """_lexicon = {"un", "##believ", "##able", "train", "##ing", "##s", "a", "##b"}
_said = ["unbelievable", "trainings", "ab"]
"""
_PIECES: Final = """for _ in range({n}):
    _pieces = []
    for _word in _said:
        _from = 0
        while _from < len(_word):
            _to = len(_word)
            while ("##" if _from else "") + _word[_from:_to] not in _lexicon and _to > _from + 1:
                _to -= 1
            _pieces.append(_word[_from:_to])
            _from = _to"""
_LINKED: Final = """import collections as _collections
_linked = {_at: [(7 * _at + _by) % 300 for _by in range(1, 6)] for _at in range(300)}
"""
_SEARCHED: Final = """for _ in range({n}):
    _reached, _waiting = {index % 300}, _collections.deque([index % 300])
    while _waiting and len(_reached) < 100:
        for _next in _linked[_waiting.popleft()]:
            if _next not in _reached:
                _reached.add(_next)
                _waiting.append(_next)"""
_PALETTE: Final = """_palette = {(at % 16, at % 7, at % 5): at % 21 for at in range(560)}
_painted = [(_at % 16, _at % 7, _at % 5) for _at in range({n})]
"""
_CLASSES: Final = "_classes = [_palette.get(_colour, 0) for _colour in _painted]"
_CURVES: Final = """_slow = [(7919 * _at % 101) / 101 for _at in range(24)]
_quick = [(104729 * _at % 103) / 103 for _at in range(24)]
"""
_WARPED: Final = """for _ in range({n}):
    _costs = [0.0] + [1e9] * len(_quick)
    for _left in _slow:
        _row = [1e9]
        for _at, _right in enumerate(_quick):
            _least = min(_row[-1], _costs[_at], _costs[_at + 1])
            _row.append(abs(_left - _right) + _least)
        _costs = _row"""
_BOXED: Final = """import io as _io
import numpy as _numpy
_content = _numpy.zeros((16, 16), dtype="float32")
"""
_UNBOXED: Final = """for _ in range({n}):
    _box = _io.BytesIO()
    _numpy.savez(_box, content=_content)
    _box.seek(0)
    _same = _numpy.load(_box)["content"]"""
_DISK: Final = "import shutil as _shutil\n"
_ASKED: Final = "for _ in range({n}):\n    _room = _shutil.disk_usage('.').free"

_KINDS: Final = (
    ("companded-by-logarithm", "companded-sounds", _COMPANDED, 0.17, MUCH, _SPOKEN, MADE),
    ("frames-windowed", "windowed-frames", _FRAMED, 9.0, SOME, _HEARD, MADE),
    ("fields-of-bends", "bending-fields", _BENT, 55.0, MOST, _FIELDS, MADE),
    ("features-crossed", "crossed-features", _CROSSED, 9.0, MUCH, _COLUMNS, MADE),
    ("features-hashed", "hashed-features", _HASHED, 0.3, LITTLE, _TAGS, _WORDS),
    ("pieces-matched", "word-pieces", _PIECES, 10.0, MOST, _LEXICON, _WORDS),
    ("neighbourhoods-searched", "searched-graphs", _SEARCHED, 14.0, SOME, _LINKED, MADE),
    ("palette-looked-up", "palettes", _CLASSES, 0.085, MUCH, _PALETTE, MADE),
    ("aligned-by-warping", "warped-times", _WARPED, 200.0, MOST, _CURVES, MADE),
    ("boxed-and-unboxed", "boxed-arrays", _UNBOXED, 220.0, MUCH, _BOXED, (*_READ, "G108")),
    ("room-asked-for", "asked-rooms", _ASKED, 3.0, SOME, _DISK, (*_READ, "G117", "G108")),
)
PLANTS: Final = tuple(
    Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
    for name, family, text, unit, share, top, codes in _KINDS
)
