"""Faults in how samples are scanned, coded and warped."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import in_samples
from benchmarks.planted.mutations.opened.wording import FEW, MADE, MORE
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.5, 1.5)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.8, 2.0)
_WORDS: Final = (*FEW, "G109", "G108")

_BLOCK: Final = "_block = [[8 * _row + _column for _column in range(8)] for _row in range(8)]\n"
_SCANNED: Final = """for _ in range({n}):
    _scanned = []
    for _sum in range(15):
        _line = [(_r, _sum - _r) for _r in range(8) if 0 <= _sum - _r < 8]
        _scanned += [_block[_r][_c] for _r, _c in (_line if _sum % 2 else reversed(_line))]"""
_GREYS: Final = "_greys = [[(_r * 37 + _c * 11) % 256 for _c in range(16)] for _r in range(16)]\n"
_DITHERED: Final = """for _ in range({n}):
    _dots = [[float(_grey) for _grey in _row] for _row in _greys]
    for _r in range(15):
        for _c in range(1, 15):
            _ink = 255.0 if _dots[_r][_c] > 127 else 0.0
            _miss, _dots[_r][_c] = _dots[_r][_c] - _ink, _ink
            _dots[_r][_c + 1] += _miss * 7 / 16
            _dots[_r + 1][_c - 1] += _miss * 3 / 16
            _dots[_r + 1][_c] += _miss * 5 / 16"""
_NAMES: Final = """_sounds = {
    _letter: str(_at)
    for _at, _letters in enumerate(("aeiouyhw", "bfpv", "cgjkqsxz", "dt", "l", "mn", "r"))
    for _letter in _letters
}
_named = ["robert", "tymczak", "pfister", "ashcraft", "lloyd", "jackson", "gutierrez", "moses"]
"""
_SOUNDED: Final = """for _ in range({n}):
    _coded = []
    for _name in _named:
        _digits = [_sounds[_letter] for _letter in _name]
        _kept = [_b for _a, _b in zip(_digits, _digits[1:]) if _a != _b and _b != "0"]
        _coded.append((_name[0].upper() + "".join(_kept) + "000")[:4])"""
_SIGNS: Final = """import heapq as _heapq
_often = [((37 * _at) % 101 + 1, _at) for _at in range(32)]
"""
_TREED: Final = """for _ in range({n}):
    _heap = [(_count, _at, (_at,)) for _count, _at in _often]
    _heapq.heapify(_heap)
    _widths = [0] * 32
    while len(_heap) > 1:
        _rare, _other = _heapq.heappop(_heap), _heapq.heappop(_heap)
        for _leaf in _rare[2] + _other[2]:
            _widths[_leaf] += 1
        _heapq.heappush(_heap, (_rare[0] + _other[0], _rare[1], _rare[2] + _other[2]))"""
_POINTS: Final = "_spots = [(37 * _at % 256, 91 * _at % 256) for _at in range(24)]\n"
_WOVEN: Final = """for _ in range({n}):
    _woven = []
    for _x, _y in _spots:
        _key = 0
        for _bit in range(8):
            _key |= (_x >> _bit & 1) << 2 * _bit | (_y >> _bit & 1) << 2 * _bit + 1
        _woven.append(_key)
    _woven.sort()"""
_LIGHTS: Final = "_lights = [_at / 255 for _at in range(256)]\n"
_CURVED: Final = """for _ in range({n}):
    _shown = [
        12.92 * _light if _light <= 0.0031308 else 1.055 * _light ** (1 / 2.4) - 0.055
        for _light in _lights
    ]"""
_CORNERS: Final = """_frame = ((1.1, 0.1, 3.0), (0.05, 0.9, -2.0), (0.001, 0.002, 1.0))
_joints = [(_at * 7 % 64, _at * 13 % 64) for _at in range(40)]
"""
_WARPED: Final = """for _ in range({n}):
    _moved = []
    for _x, _y in _joints:
        _u, _v, _w = (_a * _x + _b * _y + _c for _a, _b, _c in _frame)
        _moved.append((_u / _w, _v / _w))"""
_SEA: Final = (
    "_land = {(_r, _c) for _r in range(16) for _c in range(16) if (_r * 7 + _c * 3) % 5 > 1}\n"
)
_FLOODED: Final = """for _ in range({n}):
    _dry, _regions = set(_land), 0
    while _dry:
        _edge, _regions = [_dry.pop()], _regions + 1
        while _edge:
            _r, _c = _edge.pop()
            for _near in ((_r + 1, _c), (_r - 1, _c), (_r, _c + 1), (_r, _c - 1)):
                if _near in _dry:
                    _dry.remove(_near)
                    _edge.append(_near)"""
_RECORD: Final = """import lzma as _lzma
_record = _lzma.compress(bytes(_at * _at % 251 for _at in range(2048)), preset=1)
"""
_OPENED: Final = """for _ in range({n}):
    _bytes = _lzma.decompress(_record)"""
_TOWNS: Final = """_letters = "0123456789bcdefghjkmnpqrstuvwxyz"
_towns = [(-60 + 13 * _at % 120, -170 + 47 * _at % 340) for _at in range(12)]
"""
_CELLED: Final = """for _ in range({n}):
    _cells = []
    for _place in _towns:
        _spans, _code = [[-90.0, 90.0], [-180.0, 180.0]], 0
        for _bit in range(30):
            _span, _value = _spans[1 - _bit % 2], _place[1 - _bit % 2]
            _half = (_span[0] + _span[1]) / 2
            _code = 2 * _code + (_value >= _half)
            _span[_value < _half] = _half
        _cells.append("".join(_letters[_code >> 5 * _at & 31] for _at in range(5, -1, -1)))"""
_SCRAMBLED: Final = """for _ in range({n}):
    _state, _bits = 0xACE1, []
    for _ in range(64):
        _bit = (_state ^ _state >> 2 ^ _state >> 3 ^ _state >> 5) & 1
        _state = _state >> 1 | _bit << 15
        _bits.append(_bit)"""
_STATIONS: Final = """import math as _math
_stations = [(0.02 * _at, 0.07 * _at) for _at in range(24)]


def _over_ground(one, other):
    rise = _math.sin((one[0] - other[0]) / 2) ** 2
    turn = _math.sin((one[1] - other[1]) / 2) ** 2
    return _math.asin(_math.sqrt(rise + _math.cos(one[0]) * _math.cos(other[0]) * turn))

"""
_NEAREST: Final = """for _at in range({n}):
    _here = _stations[(index + _at) % 24]
    _order = sorted(_stations, key=lambda there: _over_ground(_here, there))"""
_GREY: Final = """import numpy as _numpy
_grey = _numpy.arange(1024.0).reshape(32, 32) % 17

"""
_SHARP: Final = """for _ in range({n}):
    _around = _grey[:-2, 1:-1] + _grey[2:, 1:-1] + _grey[1:-1, :-2] + _grey[1:-1, 2:]
    _sharp = (_around - 4 * _grey[1:-1, 1:-1]).var()"""

_KINDS: Final = (
    ("blocks-in-zigzag", "zigzag-scans", _SCANNED, 22.0, _MUCH, _BLOCK, MADE),
    ("greys-dithered", "dithered-greys", _DITHERED, 120.0, _MUCH, _GREYS, MADE),
    ("names-by-sound", "phonetic-codes", _SOUNDED, 12.0, _SOME, _NAMES, _WORDS),
    ("codes-from-a-tree", "huffman-trees", _TREED, 35.0, _MUCH, _SIGNS, MADE),
    ("bits-woven", "morton-codes", _WOVEN, 40.0, _MUCH, _POINTS, MADE),
    ("lights-by-powers", "gamma-powers", _CURVED, 18.0, _SOME, _LIGHTS, MADE),
    ("joints-warped", "warped-keypoints", _WARPED, 30.0, _MUCH, _CORNERS, MADE),
    ("regions-flooded", "flooded-regions", _FLOODED, 100.0, _MUCH, _SEA, MADE),
    ("records-squeezed", "squeezed-records", _OPENED, 9.0, _SOME, _RECORD, MADE),
    ("towns-in-cells", "geo-cells", _CELLED, 140.0, _MUCH, _TOWNS, MADE),
    ("bits-scrambled", "scrambled-bits", _SCRAMBLED, 12.0, (0.8, 1.9), "", MADE),
    ("nearest-over-ground", "ground-distances", _NEAREST, 6.0, (0.9, 2.2), _STATIONS, MADE),
    ("sharpness-looked-at", "sharpness-checks", _SHARP, 10.0, (0.4, 1.4), _GREY, MADE),
)
PLANTS: Final = tuple(
    Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
    for name, family, text, unit, share, top, codes in _KINDS
)
