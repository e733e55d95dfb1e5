"""Faults in what the host counts, scores and reports beside a step.

Beside a busy GPU the host has time to spare, so that more of a step is planted there.
"""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, seldom
from benchmarks.planted.mutations.opened.wording import ARRAYS, PYTHON, QUIET, SELDOM, TIMES
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.4, 1.4)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.7, 1.7)
_MOST: Final = (1.0, 2.0)
_LOGS: Final = (*PYTHON, "G702")

_TABLE: Final = """import numpy as _numpy
_table = _numpy.zeros((10, 10))
_meant = _numpy.arange(256) * 7 % 10
_given = _numpy.arange(256) * 3 % 10
"""
_COUNTED: Final = f"{TIMES}_numpy.add.at(_table, (_meant, _given), 1)"
_WINDOW: Final = """import statistics as _statistics
_window = [(37 * _at % 101) / 101 for _at in range(100)]
"""
_MEDIAN: Final = f"""{TIMES}_window[_at % 100] += 0.001
    _middle, _width = _statistics.median(_window), _statistics.pstdev(_window[:20])"""
_FRACTIONS: Final = "import fractions as _fractions\n"
_EXACT: Final = f"""{TIMES}_exact = _fractions.Fraction(0)
    for _part in range(1, 12):
        _exact += _fractions.Fraction(1, _part * _part)"""
_HEAP: Final = """import heapq as _heapq
_losses = [((37 * _at % 1009) / 1009, _at) for _at in range(1000)]
"""
_HARDEST: Final = f"{TIMES}_hardest = _heapq.nlargest(20, _losses, key=lambda _pair: _pair[0])"
_DRAWS: Final = """import random as _random
_draws = _random.Random(1)
_scores = [(37 * _at % 101) / 101 for _at in range(100)]
"""
_BOOTED: Final = f"{TIMES}_again = sum(_draws.choices(_scores, k=100)) / 100"
_PREVIEW: Final = """import base64 as _base64
import zlib as _zlib
_preview = bytes(_at * _at % 251 for _at in range(3072))
"""
_SHOWN: Final = f"{TIMES}_shown = _base64.b64encode(_zlib.compress(_preview)).decode()"
_TREE: Final = "import xml.etree.ElementTree as _trees\n"
_REPORTED: Final = f"""{TIMES}_root = _trees.Element("run")
    for _name in ("loss", "rate", "norm", "scale"):
        _trees.SubElement(_root, "value", name=_name).text = str(0.5 * _at)
    _report = _trees.tostring(_root)"""
_SETTINGS: Final = """import configparser as _configparser
_lines = "[train]\\n" + "".join(f"option{_at} = {_at}\\n" for _at in range(12))
"""
_SET: Final = f"""{TIMES}_settings = _configparser.ConfigParser()
    _settings.read_string(_lines)
    _option = _settings.getint("train", "option3")"""
_RANKS: Final = "_ranked = [((37 * _at % 101) / 101, _at % 2) for _at in range(200)]\n"
_CURVE: Final = f"""{TIMES}_right = _wrong = _under = 0
    for _score, _kind in sorted(_ranked, reverse=True):
        _right += _kind
        _wrong += 1 - _kind
        _under += _right * (1 - _kind)
    _under /= _right * _wrong"""
_SEEN: Final = "_seen = [(_at / 40) ** 2 for _at in range(40)]\n"
_TRACKED: Final = f"""{TIMES}_place, _pace, _a, _b, _c = 0.0, 0.0, 1.0, 0.0, 1.0
    for _measured in _seen:
        _place, _a, _b = _place + _pace, _a + 2 * _b + _c + 0.01, _b + _c
        _gain, _other = _a / (_a + 0.1), _b / (_a + 0.1)
        _miss = _measured - _place
        _place, _pace = _place + _gain * _miss, _pace + _other * _miss
        _a, _b, _c = (1 - _gain) * _a, (1 - _gain) * _b, _c - _other * _b"""
_LINKS: Final = "from urllib.parse import urlencode as _urlencode\n"
_LINKED: Final = (
    f'{TIMES}_link = _urlencode({{"run": "a b", "step": _at, "loss": 0.5, "note": "über & aus"}})'
)
_CROWD: Final = """import numpy as _numpy
_crowd = _numpy.random.default_rng(1).random((64, 24))
"""
_AXES: Final = f"{TIMES}_axes = _numpy.linalg.eigvalsh(_numpy.cov(_crowd.T))"
_PAGE: Final = """_figures = [(f"layer{_at}", _at / 7, _at * _at / 3) for _at in range(60)]
"""
_PAGED: Final = f"""{TIMES}_page = "\\n".join(
        f"| {{_name:<12}} | {{_mean:>10.4f}} | {{_most:>12.3e}} |"
        for _name, _mean, _most in _figures
    )"""

_KINDS: Final = (
    ("answers-counted-at", "counted-answers", _COUNTED, 12.0, _MUCH, _TABLE, ARRAYS, ()),
    ("middle-of-the-last", "last-medians", _MEDIAN, 50.0, _MUCH, _WINDOW, PYTHON, ()),
    ("fractions-kept-exact", "exact-fractions", _EXACT, 15.0, _MUCH, _FRACTIONS, PYTHON, ()),
    ("hardest-on-a-heap", "heaped-losses", _HARDEST, 60.0, _MOST, _HEAP, PYTHON, ()),
    ("scores-drawn-again", "redrawn-scores", _BOOTED, 7.0, _MUCH, _DRAWS, PYTHON, ()),
    ("previews-encoded", "encoded-previews", _SHOWN, 15.0, _MUCH, _PREVIEW, _LOGS, QUIET),
    ("reports-in-tags", "tagged-reports", _REPORTED, 17.0, _SOME, _TREE, _LOGS, QUIET),
    ("settings-parsed-again", "parsed-settings", _SET, 70.0, _MUCH, _SETTINGS, PYTHON, ()),
    ("area-under-a-curve", "curve-areas", _CURVE, 46.0, _MUCH, _RANKS, PYTHON, ()),
    ("paces-tracked", "tracked-paces", _TRACKED, 22.0, _MOST, _SEEN, PYTHON, ()),
    ("links-quoted", "quoted-links", _LINKED, 6.0, _SOME, _LINKS, _LOGS, QUIET),
    ("axes-of-a-crowd", "crowd-axes", _AXES, 48.0, _MUCH, _CROWD, ARRAYS, ()),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    Plant(
        "pages-of-figures",
        "figure-pages",
        seldom(_PAGED, 60.0, _MUCH, _PAGE),
        (*SELDOM, "G702"),
        QUIET,
        at_line=True,
    ),
)
