"""Faults in how joints, trees, molecules and boards of a sample are made."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import LITTLE, MOST, MUCH, SOME, in_samples
from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
)
from benchmarks.planted.mutations.plant import Plant

_WORDS: Final = (*FEW, "G109", "G108")
_READ: Final = (*FEW, "G106", "G117")

_JOINTS: Final = """import math as _math
_joints = [(_at % 7 - 3.0, _at % 11 - 5.0) for _at in range({n})]
"""
_ANGLES: Final = "_angles = [_math.degrees(_math.atan2(y, x)) for x, y in _joints]"
_TREE: Final = """def _grown(depth):
    return [_grown(depth - 1) for _ in range(2)] if depth else depth


def _depths(tree):
    return 1 + max(map(_depths, tree)) if isinstance(tree, list) else 0


_tree = _grown(5)
"""
_WALKED: Final = "for _ in range({n}):\n    _depth = _depths(_tree)"
_MOLECULE: Final = '_molecule = "CC(=O)Oc1ccccc1C(=O)O" * 3\n'
_PARSED: Final = """for _ in range({n}):
    _atoms, _open = [], []
    for _sign in _molecule:
        if _sign == "(":
            _open.append(len(_atoms))
        elif _sign == ")":
            _open.pop()
        elif _sign.isalpha():
            _atoms.append((_sign, _open[-1] if _open else -1))"""
_BOARD: Final = '_board = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR"\n'
_PLANES: Final = """for _ in range({n}):
    _planes = {}
    for _y, _rank in enumerate(_board.split("/")):
        _x = 0
        for _piece in _rank:
            if _piece.isdigit():
                _x += int(_piece)
            else:
                _planes.setdefault(_piece, []).append((_x, _y))
                _x += 1"""
_MASK: Final = """import itertools as _itertools
_mask = [_at // 7 % 3 % 2 for _at in range({n})]
"""
_RUNS: Final = "_runs = [(k, sum(1 for _ in run)) for k, run in _itertools.groupby(_mask)]"
_PRICES: Final = "_prices = [100 + _at % 13 for _at in range({n})]\n"
_TREND: Final = """_trend, _mean = [], 100.0
for _price in _prices:
    _mean += 0.1 * (_price - _mean)
    _trend.append(_mean)"""
_CORNERS: Final = """import numpy as _numpy
_corners = _numpy.array([[0.0, 0.0, 1.0], [0.0, 9.0, 1.0], [9.0, 0.0, 1.0]])
"""
_BENT: Final = """for _at in range({n}):
    _turn = _numpy.linalg.solve(_corners, _corners + 0.1 * (index % 7))
    _bent = _corners @ _turn"""
_TITLES: Final = '_titles = [f"The {_at}th Film ({1900 + _at % 100})" for _at in range({n})]\n'
_CLEANED: Final = """_cleaned = [
    "".join(sign for sign in _title.casefold() if sign.isalnum() or sign == " ")
    for _title in _titles
]"""
_BOXES: Final = "_boxes = [(_at % 90 - 9, _at % 80, _at % 70, _at) for _at in range({n})]\n"
_CLIPPED: Final = """_clipped = [
    (max(0, min(64, x)), max(0, min(64, y)), min(64, x + w), min(64, y + h))
    for x, y, w, h in _boxes
]"""
_FOLDER: Final = """import os as _os
import tempfile as _tempfile
_folder = _tempfile.mkdtemp()
for _at in range(30):
    open(_os.path.join(_folder, f"{_at}.jpg"), "wb").close()
"""
_LISTED: Final = """for _ in range({n}):
    _files = sorted(_entry.name for _entry in _os.scandir(_folder) if _entry.is_file())"""

_KINDS: Final = (
    ("angles-of-joints", "joint-angles", _ANGLES, 0.09, MUCH, _JOINTS, MADE),
    ("trees-walked-down", "walked-trees", _WALKED, 13.0, SOME, _TREE, MADE),
    ("molecules-parsed", "parsed-molecules", _PARSED, 6.0, MUCH, _MOLECULE, _WORDS),
    ("boards-in-planes", "board-planes", _PLANES, 6.5, LITTLE, _BOARD, MADE),
    ("masks-in-runs", "runs-of-masks", _RUNS, 0.08, MOST, _MASK, MADE),
    ("trends-of-prices", "price-trends", _TREND, 0.09, SOME, _PRICES, MADE),
    ("corners-solved-for", "solved-corners", _BENT, 8.0, MOST, _CORNERS, MADE),
    ("titles-made-plain", "plain-titles", _CLEANED, 1.6, MUCH, _TITLES, _WORDS),
    ("boxes-clipped-singly", "clipped-boxes", _CLIPPED, 1.1, SOME, _BOXES, MADE),
    ("entries-scanned", "scanned-folders", _LISTED, 20.0, MUCH, _FOLDER, _READ),
)
PLANTS: Final = tuple(
    Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
    for name, family, text, unit, share, top, codes in _KINDS
)
