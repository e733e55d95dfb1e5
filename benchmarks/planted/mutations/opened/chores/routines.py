"""Faults in what the host does beside each step."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.amounts import SHARES, beside, seldom
from benchmarks.planted.mutations.opened.wording import (
    FILES,
    PYTHON,
    QUIET,
)
from benchmarks.planted.mutations.parts import of_output
from benchmarks.planted.mutations.plant import (
    Plant,
    Site,
    at_top,
)
from benchmarks.planted.source import Change

_READ: Final = ("G305", "G307", "G308", "G202", "G201", "G214")
_SELDOM: Final = (*PYTHON, "G705")


def _acting(site: Site) -> Sequence[Change] | None:
    """Have a thread of the training play a game in Python for part of the time."""
    return [at_top(site, _ACTOR)] if site.step is not None else None


_ACTOR: Final = """import threading as _threading
import time as _time
_episodes = {}


def _act():
    while True:
        until = _time.perf_counter() + 0.02
        while _time.perf_counter() < until:
            state = len(_episodes) % 97
            _episodes[state] = [0.5 * cell for cell in range(state)]
        _time.sleep(0.02)


_threading.Thread(target=_act, daemon=True).start()
"""
_LETTERS: Final = (
    "_best = {output}.detach().float().flatten()[:512].tolist()\n"
    "_best = (_best * (1 + {n} // len(_best)))[:{n}]\n"
    "_kept = [_key for _key, _ in _itertools.groupby(round(_value) for _value in _best)]"
)
_CLOCK: Final = "import datetime as _datetime\n"
_TOLD: Final = """for _left in range({n}):
    _until = _datetime.datetime.now().astimezone() + _datetime.timedelta(seconds=_left)
    _estimate = _until.strftime("%Y-%m-%d %H:%M:%S %z")"""
_NESTED: Final = """import pprint as _pprint
_choices = {f"part{_at}": {"rate": 0.1, "sizes": [_at, 4]} for _at in range(max(1, {n}))}
"""
_SPOKEN: Final = """_heard = [7919 * _at % 211 for _at in range(48)]
_meant = [104729 * _at % 199 for _at in range(48)]
"""
_COMMON: Final = """for _ in range({n}):
    _before = [0] * 49
    for _word in _heard:
        _row = [0]
        for _at, _other in enumerate(_meant):
            _row.append(_before[_at] + 1 if _word == _other else max(_row[-1], _before[_at + 1]))
        _before = _row"""
_COSTS: Final = """import itertools as _itertools
_costs = [[7919 * (_row + 5 * _at) % 101 for _at in range(5)] for _row in range(5)]
"""
_ASSIGNED: Final = """for _ in range({n}):
    _matched = min(
        _itertools.permutations(range(5)),
        key=lambda order: sum(_costs[row][at] for row, at in enumerate(order)),
    )"""
_CHAIN: Final = """_moves = [[0.1 * ((row + 3 * at) % 7) for at in range(12)] for row in range(12)]
"""
_TAGGED: Final = """_likely = [0.0] * 12
for _ in range({n}):
    _likely = [max(_likely[row] + _moves[row][at] for row in range(12)) for at in range(12)]"""
_EXACT: Final = """import decimal as _decimal
_exact = [_decimal.Decimal(_at) / 7 for _at in range(1, {n} + 1)]
"""
_DRAFT: Final = """import tempfile as _tempfile
"""
_DRAFTED: Final = """for _ in range({n}):
    with _tempfile.NamedTemporaryFile("w") as _draft:
        _draft.write("loss 0.5")"""
_ASIDE: Final = """import os as _os
import shutil as _shutil
import tempfile as _tempfile
_desk = _tempfile.mkdtemp()
with open(_os.path.join(_desk, "notes.txt"), "w") as _notes:
    _notes.write("loss 0.5\\n" * 2000)
"""
_COPIED: Final = """for _at in range({n}):
    _shutil.copy2(_os.path.join(_desk, "notes.txt"), _os.path.join(_desk, f"{_at % 4}.bak"))"""
_MESSAGE: Final = """import zlib as _zlib
_message = bytes(7919 * _at % 251 for _at in range(1024)) * max(1, {n})
"""
_ORDER: Final = """import random as _random
_order = list(range({n}))
_dealer = _random.Random(1)
"""
_TENSORS: Final = """import numpy as _numpy
_first, _second = _numpy.ones(({n}, 16)), _numpy.ones((16, 16))
"""
_VALUES: Final = """import numpy as _numpy
_clipped = _numpy.vectorize(lambda value: value if value > 0.0 else 0.01 * value)
_values = _numpy.linspace(-1.0, 1.0, {n})
"""
_CURVE: Final = """import numpy as _numpy
_curve = [_numpy.zeros(2000)]
"""
_GROWN: Final = """for _ in range({n}):
    _curve[0] = _numpy.append(_curve[0][-2000:], 0.5)"""
_DOTTED: Final = """class _Dotted:
    def __init__(self, values):
        self._values = values

    def __getattr__(self, name):
        value = self.__dict__["_values"][name]
        return _Dotted(value) if isinstance(value, dict) else value


_plan = _Dotted({"model": {"layers": {"size": 4}}})
"""
_ASKED: Final = "_size = sum(_plan.model.layers.size for _ in range({n}))"
_MANAGED: Final = """import multiprocessing as _processes
_managers, _boards = [], []
"""
_COUNTED: Final = """if not _boards:
    _managers.append(_processes.get_context("fork").Manager())
    _boards.append(_managers[0].dict(steps=0))
for _ in range({n}):
    _boards[0]["steps"] = _boards[0]["steps"] + 1"""
_SEEN: Final = """import numpy as _numpy
_seen = _numpy.random.default_rng(1).random((64, {n}))
"""
_WORDS: Final = """import collections as _collections
_speech = " ".join(f"word{7919 * _at % 911}" for _at in range({n}))
"""
_BACKUP: Final = """import io as _io
import zipfile as _zipfile
_code = {f"part{_at}.py": "value = 1\\n" * 200 for _at in range({n})}
"""
_SAVED: Final = """with _zipfile.ZipFile(_io.BytesIO(), "w", _zipfile.ZIP_DEFLATED) as _backup:
    for _name, _text in _code.items():
        _backup.writestr(_name, _text)"""

_KINDS: Final = (
    ("time-left-told", "times-told", _TOLD, 7.0, _CLOCK, PYTHON, QUIET),
    (
        "choices-set-in-type",
        "pretty-prints",
        "_set = _pprint.pformat(_choices)",
        19.0,
        _NESTED,
        PYTHON,
        QUIET,
    ),
    ("longest-common-parts", "common-parts", _COMMON, 520.0, _SPOKEN, PYTHON, ()),
    ("matched-by-all-orders", "assignments", _ASSIGNED, 95.0, _COSTS, PYTHON, ()),
    ("tags-by-tables", "best-paths", _TAGGED, 18.0, _CHAIN, PYTHON, ()),
    (
        "averaged-in-decimals",
        "decimals",
        "_average = sum(_one * _one for _one in _exact) / len(_exact)",
        0.3,
        _EXACT,
        PYTHON,
        QUIET,
    ),
    ("drafts-made", "temporary-files", _DRAFTED, 55.0, _DRAFT, FILES, QUIET),
    ("notes-put-aside", "copied-files", _COPIED, 170.0, _ASIDE, (*FILES, "G701"), QUIET),
    (
        "message-compressed",
        "compressed-messages",
        "_sent = _zlib.compress(_message, 6)",
        5.0,
        _MESSAGE,
        PYTHON,
        (),
    ),
    ("order-dealt", "dealt-orders", "_dealer.shuffle(_order)", 0.3, _ORDER, PYTHON, ()),
    (
        "sums-over-three",
        "naive-sums",
        "_summed = _numpy.einsum('ij,jk,ik->', _first, _second, _first)",
        0.4,
        _TENSORS,
        (*PYTHON, "G203"),
        (),
    ),
    (
        "function-for-each-value",
        "vectorised-functions",
        "_kept_values = _clipped(_values)",
        0.12,
        _VALUES,
        (*PYTHON, "G203"),
        (),
    ),
    ("curve-appended-to", "grown-arrays", _GROWN, 2.6, _CURVE, (*PYTHON, "G203"), QUIET),
    ("plan-asked-by-dots", "dotted-settings", _ASKED, 2.2, _DOTTED, PYTHON, ()),
    ("steps-on-a-board", "managed-boards", _COUNTED, 110.0, _MANAGED, PYTHON, QUIET),
)
_OCCASIONS: Final = (
    (
        "correlations-now-and-then",
        "correlations",
        "_alike = _numpy.corrcoef(_seen)",
        0.5,
        _SEEN,
    ),
    (
        "words-counted-now-and-then",
        "recounted-words",
        "_common = _collections.Counter(_speech.split()).most_common(50)",
        0.11,
        _WORDS,
    ),
    ("code-kept-now-and-then", "kept-code", _SAVED, 26.0, _BACKUP),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, SHARES, top), codes, fixes, at_line=True)
        for name, family, text, unit, top, codes, fixes in _KINDS
    ),
    *(
        Plant(name, family, seldom(text, unit, SHARES, top), _SELDOM, QUIET, at_line=True)
        for name, family, text, unit, top in _OCCASIONS
    ),
    Plant(
        "letters-collapsed",
        "collapsed-letters",
        of_output(_LETTERS, 0.2, "import itertools as _itertools\n"),
        _READ,
        at_line=True,
    ),
    Plant(
        "actor-in-a-thread",
        "acting-threads",
        _acting,
        (*PYTHON, "G220", "G103", "G113"),
        (),
        "any",
        at_line=True,
    ),
)
