"""Faults in what the host works out, prints and reads beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, seldom
from benchmarks.planted.mutations.opened.wording import (
    ARRAYS,
    PYTHON,
    QUIET,
    SELDOM,
    TIMES,
)
from benchmarks.planted.mutations.plant import Plant

_SOME: Final = (0.25, 1.2)  # of a healthy step, on the CPU and beside a GPU
_MUCH: Final = (0.5, 1.5)
_MOST: Final = (0.8, 1.8)
_LOGS: Final = (*PYTHON, "G702")

_MONTHS: Final = "import calendar as _calendar\n_months = _calendar.TextCalendar()\n"
_MONTH: Final = f"{TIMES}_month = _months.formatmonth(2020 + _at % 9, 1 + _at % 12)"
_BYTES: Final = "_record = bytes(range(256)) * 4\n"
_SUMMED: Final = f"""{TIMES}_check = 0
    for _byte in _record:
        _check = (31 * _check + _byte) % 65521"""
_COLONY: Final = "_colony = {(_x, _x * _x % 11) for _x in range(40)}\n"
_LIVED: Final = f"""{TIMES}_beside = {{}}
    for _x, _y in _colony:
        for _dx in (-1, 0, 1):
            for _dy in (-1, 0, 1):
                _beside[_x + _dx, _y + _dy] = _beside.get((_x + _dx, _y + _dy), 0) + 1
    _next = {{_place for _place, _count in _beside.items() if _count == 3}}"""
_SACK: Final = "_sizes = [3 + 7 * _at % 23 for _at in range(12)]\n"
_FILLED: Final = f"""{TIMES}_best = [0] * 60
    for _size in _sizes:
        for _room in range(59, _size - 1, -1):
            _best[_room] = max(_best[_room], _best[_room - _size] + _size)"""
_TABLE: Final = """import csv as _csv
_table = "step;loss;rate\\n" + "".join(f"{_at};0.5;0.1\\n" for _at in range(8))
"""
_SNIFFED: Final = f"{TIMES}_dialect = _csv.Sniffer().sniff(_table)"
_SOURCES: Final = "import inspect as _inspect\nimport textwrap as _textwrap\n"
_SOURCE: Final = f"{TIMES}_source = _inspect.getsource(_textwrap.dedent)"
_COMPILED: Final = f"{TIMES}_rate = eval(compile('0.1 * (1 + 5) ** -0.5', 'rate', 'eval'))"
_LINKS: Final = "_links = [(7919 * _at % 97, 104729 * _at % 97) for _at in range(100)]\n"
_UNITED: Final = f"""{TIMES}_above = list(range(97))
    for _left, _right in _links:
        while _above[_left] != _left:
            _left = _above[_left]
        while _above[_right] != _right:
            _right = _above[_right]
        _above[_left] = _right"""
_DEAF: Final = """import io as _io
import logging as _logging
_deaf = _logging.getLogger("deaf")
_deaf.propagate = False
_deaf.setLevel(_logging.INFO)
_deaf.addHandler(_logging.StreamHandler(_io.StringIO()))
"""
_UNHEARD: Final = f"""_deaf.handlers[0].setStream(_io.StringIO())
{TIMES}_deaf.info("step %d: loss %.4f", _at, 0.5)"""
_CURVE: Final = "import numpy as _numpy\n_curve = _numpy.random.default_rng(1).random(4096)\n"
_SPECTRUM: Final = f"{TIMES}_spectrum = abs(_numpy.fft.rfft(_curve * _numpy.hanning(4096)))"
_VALUES: Final = """import io as _io
import numpy as _numpy
_values = _numpy.random.default_rng(1).random((20, 5))
"""
_WRITTEN: Final = f"{TIMES}_numpy.savetxt(_io.StringIO(), _values, fmt='%.5f')"
_CLOCK: Final = "import datetime as _datetime\n"
_READ: Final = (
    f"{TIMES}_moment = _datetime.datetime.strptime('2025-03-04 05:06:07', '%Y-%m-%d %H:%M:%S')"
)
_PLANS: Final = """_part = {f"value{_at}": _at for _at in range(10)}
_plan = {f"part{_at}": dict(_part) for _at in range(10)}


def _differing(left, right):
    if not isinstance(left, dict):
        return int(left != right)
    return sum(_differing(left[name], right.get(name)) for name in left)


"""
_COMPARED: Final = f"{TIMES}_differences = _differing(_plan, _plan)"
_PLAYERS: Final = """import math as _math
_ratings = [1000.0 + _at for _at in range(64)]
"""
_RATED: Final = f"""{TIMES}_one, _other = _at % 64, 7 * _at % 64
    _odds = 1 / (1 + _math.pow(10, (_ratings[_other] - _ratings[_one]) / 400))
    _ratings[_one] += 16 * ((_at % 2) - _odds)"""
_FACE: Final = "_face = [[(_x * _y) % 10 / 10 for _x in range(28)] for _y in range(28)]\n"
_DRAWN: Final = f"""{TIMES}_drawn = "\\n".join(
        "".join(" .:-=+*#%@"[int(10 * _dot)] for _dot in _row) for _row in _face
    )"""
_CHANCES: Final = """import math as _math
_chances = [0.01 + _at % 50 / 60 for _at in range(200)]
"""
_SURPRISE: Final = f"{TIMES}_surprise = -sum(_math.log(_chance) for _chance in _chances) / 200"
_BOARD: Final = """def _placed(rows):
    if len(rows) == 5:
        return 1
    return sum(
        _placed((*rows, column))
        for column in range(5)
        if all(column != c and abs(column - c) != len(rows) - r for r, c in enumerate(rows))
    )


"""
_QUEENS: Final = f"{TIMES}_ways = _placed(())"
_BESIDE: Final = (0.8, 1.9)  # the same of what a busy GPU leaves to the host
_WISHES: Final = "_wishes = [[(7 * _a + 3 * _b) % 11 for _b in range(12)] for _a in range(12)]\n"
_MATCHED: Final = f"""{TIMES}_free, _asked, _held = list(range(12)), [0] * 12, {{}}
    while _free:
        _one = _free.pop()
        _other = sorted(range(12), key=_wishes[_one].__getitem__)[_asked[_one]]
        _asked[_one] += 1
        _rival = _held.get(_other, _one)
        if _wishes[_other][_one] <= _wishes[_other][_rival]:
            _held[_other], _one = _one, _rival
        if _held[_other] != _one:
            _free.append(_one)"""
_SUMS: Final = """_event, _table = bytes(range(120)), []
for _at in range(256):
    for _ in range(8):
        _at = _at >> 1 ^ (0x82F63B78 if _at & 1 else 0)
    _table.append(_at)
"""
_CHECKED: Final = f"""{TIMES}_sum = 0xFFFFFFFF
    for _byte in _event:
        _sum = _table[(_sum ^ _byte) & 255] ^ _sum >> 8"""

_KINDS: Final = (
    ("months-in-type", "printed-calendars", _MONTH, 75.0, _SOME, _MONTHS, PYTHON, QUIET),
    ("checked-by-hand", "hand-made-checksums", _SUMMED, 170.0, _MUCH, _BYTES, PYTHON, ()),
    ("colony-lives-on", "living-cells", _LIVED, 220.0, _MOST, _COLONY, PYTHON, ()),
    ("sack-filled-again", "filled-sacks", _FILLED, 280.0, _SOME, _SACK, PYTHON, ()),
    ("dialect-sniffed", "sniffed-dialects", _SNIFFED, 600.0, _MUCH, _TABLE, PYTHON, ()),
    ("source-read-again", "read-sources", _SOURCE, 900.0, _MUCH, _SOURCES, PYTHON, ()),
    ("formula-compiled-again", "compiled-formulas", _COMPILED, 14.0, _MUCH, "", PYTHON, ()),
    ("sets-united-again", "united-sets", _UNITED, 40.0, _SOME, _LINKS, PYTHON, ()),
    ("lines-to-nobody", "unheard-lines", _UNHEARD, 12.0, _MUCH, _DEAF, _LOGS, QUIET),
    ("spectrum-of-curve", "curve-spectra", _SPECTRUM, 130.0, _MUCH, _CURVE, ARRAYS, ()),
    ("values-saved-as-text", "saved-texts", _WRITTEN, 110.0, _SOME, _VALUES, ARRAYS, QUIET),
    ("moments-read-again", "read-moments", _READ, 11.0, _MUCH, _CLOCK, PYTHON, ()),
    ("plans-compared-again", "compared-plans", _COMPARED, 64.0, _MOST, _PLANS, PYTHON, ()),
    ("players-rated-again", "rated-players", _RATED, 0.9, _MUCH, _PLAYERS, PYTHON, ()),
    ("faces-in-signs", "sign-pictures", _DRAWN, 235.0, _SOME, _FACE, PYTHON, QUIET),
    ("surprise-by-hand", "summed-surprises", _SURPRISE, 50.0, _MUCH, _CHANCES, PYTHON, ()),
    ("events-with-check-sums", "table-sums", _CHECKED, 10.5, (0.6, 1.6), _SUMS, _LOGS, ()),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    Plant(
        "queens-now-and-then",
        "placed-queens",
        seldom(_QUEENS, 360.0, _MUCH, _BOARD),
        SELDOM,
        QUIET,
        at_line=True,
    ),
    Plant(
        "pairs-matched-stably",
        "stable-matchings",
        beside(_MATCHED, 13.0, _BESIDE, _WISHES),
        PYTHON,
        at_line=True,
    ),
)
