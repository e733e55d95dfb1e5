"""Faults in how labels, boxes, tags and colours of a sample are made."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import in_samples
from benchmarks.planted.mutations.opened.wording import FEW, MADE, MORE
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.4, 1.4)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.7, 1.8)
_WORDS: Final = (*FEW, "G109", "G108")

_BLOB: Final = """import base64 as _base64
import struct as _struct
_blob = _base64.b64encode(_struct.pack("<256f", *range(256)))
"""
_UNPACKED: Final = """for _ in range({n}):
    _fields = _struct.unpack("<256f", _base64.b64decode(_blob))
    _low, _high = min(_fields), max(_fields)
    _fields = [(_value - _low) / (_high - _low) for _value in _fields]"""
_NUMPY: Final = "import numpy as _numpy\n"
_PICTURE: Final = f"{_NUMPY}_picture = _numpy.random.default_rng(1).random((32, 32, 3))\n"
_JIGSAW: Final = """for _at in range({n}):
    _order = _numpy.random.permutation(16)
    _parts = [_picture[8 * (_p // 4) : 8 * (_p // 4) + 8, 8 * (_p % 4) :][:, :8] for _p in _order]
    _rows = [_numpy.concatenate(_parts[_r : _r + 4], 1) for _r in range(0, 16, 4)]
    _puzzle = _numpy.concatenate(_rows, 0)"""
_SOFTENED: Final = """for _at in range({n}):
    _soft = [0.9 if _kind == _at % 100 else 0.1 / 99 for _kind in range(100)]
    _total = sum(_soft)
    _soft = [_share / _total for _share in _soft]"""
_ANCHORS: Final = (
    "_anchors = [(x / 6, y / 6, x / 6 + 0.3, y / 6 + 0.3) for x in range(6) for y in range(6)]\n"
)
_MATCHED: Final = """for _at in range({n}):
    _box = (0.1, 0.2, 0.5, 0.4 + _at % 7 / 20)
    _targets = []
    for _a in _anchors:
        _wide = max(0.0, min(_box[2], _a[2]) - max(_box[0], _a[0]))
        _common = _wide * max(0.0, min(_box[3], _a[3]) - max(_box[1], _a[1]))
        _all = 0.09 + (_box[2] - _box[0]) * (_box[3] - _box[1]) - _common
        _targets.append(1 if _common / _all > 0.5 else 0)"""
_BANDS: Final = "import math as _math\n_bands = [(7 * _at % 26) / 26 for _at in range(26)]\n"
_COSINES: Final = """for _ in range({n}):
    _cosines = [
        sum(_v * _math.cos(_math.pi * _k * (_at + 0.5) / 26) for _at, _v in enumerate(_bands))
        for _k in range(13)
    ]"""
_TAGGED: Final = "_tags = ['B-PER', 'I-PER', 'O', 'B-LOC', 'I-LOC', 'I-LOC', 'O', 'O'] * 8\n"
_SPANS: Final = """for _ in range({n}):
    _spans, _open = [], None
    for _at, _tag in enumerate([*_tags, "O"]):
        if _open is not None and not _tag.startswith("I-"):
            _spans.append((*_open, _at))
            _open = None
        if _tag.startswith("B-"):
            _open = (_tag.partition("-")[2], _at)"""
_HUES: Final = """import colorsys as _colorsys
_dots = [(_at % 7 / 7, _at % 11 / 11, _at % 13 / 13) for _at in range(64)]
"""
_TURNED: Final = """for _at in range({n}):
    _turned = []
    for _dot in _dots:
        _hue, _depth, _light = _colorsys.rgb_to_hsv(*_dot)
        _turned.append(_colorsys.hsv_to_rgb((_hue + 0.1) % 1, _depth, _light))"""
_EDGES: Final = """import bisect as _bisect
_edges = [_at / 64 for _at in range(64)]
_levels = [(37 * _at % 101) / 101 for _at in range(100)]
"""
_PLACED: Final = """for _ in range({n}):
    _places = [_bisect.bisect_right(_edges, _level) for _level in _levels]"""
_LINKS: Final = "_near = {_at: [(7 * _at + _k) % 40 for _k in range(4)] for _at in range(40)}\n"
_PAIRED: Final = """for _ in range({n}):
    _pairs = {tuple(sorted((_from, _to))) for _from, _tos in _near.items() for _to in _tos}
    _ends = [list(_side) for _side in zip(*sorted(_pairs))]"""
_CLOUD: Final = "_cloud = [(_at / 50, _at % 7 / 7, _at % 3 / 3) for _at in range(50)]\n"
_SPUN: Final = """for _at in range({n}):
    _w, _x, _y, _z = 0.9, 0.1, 0.3, 0.3
    _spun = []
    for _a, _b, _c in _cloud:
        _u, _v, _t = _y * _c - _z * _b, _z * _a - _x * _c, _x * _b - _y * _a
        _spun.append((_a + 2 * _w * _u, _b + 2 * _w * _v, _c + 2 * _w * _t))"""
_GREYS: Final = "_greys = [(_at * _at) % 256 for _at in range(784)]\n"
_EVENED: Final = """for _ in range({n}):
    _counts = [0] * 256
    for _grey in _greys:
        _counts[_grey] += 1
    _below, _sums = 0, []
    for _count in _counts:
        _below += _count
        _sums.append(_below)
    _evened = [255 * _sums[_grey] // 784 for _grey in _greys]"""

_KINDS: Final = (
    ("blobs-unpacked", "unpacked-blobs", _UNPACKED, 23.0, _MUCH, _BLOB, MADE),
    ("pieces-of-a-puzzle", "puzzle-pieces", _JIGSAW, 22.0, _MUCH, _PICTURE, MADE),
    ("answers-softened", "softened-answers", _SOFTENED, 6.0, _SOME, "", MADE),
    ("anchors-matched", "matched-anchors", _MATCHED, 40.0, _MUCH, _ANCHORS, MADE),
    ("cosines-of-bands", "band-cosines", _COSINES, 53.0, _MUCH, _BANDS, MADE),
    ("spans-of-tags", "tag-spans", _SPANS, 15.0, _SOME, _TAGGED, _WORDS),
    ("hues-turned", "turned-hues", _TURNED, 70.0, _MUCH, _HUES, MADE),
    ("levels-looked-up", "looked-up-levels", _PLACED, 12.0, _SOME, _EDGES, MADE),
    ("links-in-pairs", "paired-links", _PAIRED, 60.0, _MUCH, _LINKS, MADE),
    ("clouds-spun", "spun-clouds", _SPUN, 24.0, _MUCH, _CLOUD, MADE),
    ("greys-evened", "evened-greys", _EVENED, 88.0, _MUCH, _GREYS, MADE),
)
PLANTS: Final = tuple(
    Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
    for name, family, text, unit, share, top, codes in _KINDS
)
