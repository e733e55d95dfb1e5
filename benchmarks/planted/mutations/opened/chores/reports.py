"""Faults in what the host does beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import (
    LITTLE,
    MOST,
    MUCH,
    SOME,
    beside,
    seldom,
)
from benchmarks.planted.mutations.opened.wording import (
    ARRAYS,
    FILES,
    PYTHON,
    QUIET,
    SELDOM,
)
from benchmarks.planted.mutations.plant import Plant

_NAMES: Final = """import difflib as _difflib
_known = [f"layer{_at}.weight" for _at in range(30)]
"""
_ALIKE: Final = """for _at in range({n}):
    _alike = _difflib.get_close_matches(f"layr{_at % 30}.wieght", _known, 1)"""
_FORM: Final = """import string as _string
_form = _string.Template("step $step of $all: loss $loss at rate $rate")
"""
_WORDED: Final = """for _at in range({n}):
    _worded = _form.substitute(step=_at, all=1000, loss=0.5, rate=0.1)"""
_TREE: Final = "import xml.etree.ElementTree as _tree\n"
_REPORTED: Final = """_report = _tree.Element("run")
for _at in range({n}):
    _tree.SubElement(_report, "step", number=str(_at), loss="0.5").text = "done"
_printed = _tree.tostring(_report)"""
_SHEET: Final = """import csv as _csv
import io as _io
_columns = ["step", "loss", "rate", "seconds"]
"""
_WRITTEN: Final = """_sheet = _csv.DictWriter(_io.StringIO(), _columns)
for _at in range({n}):
    _sheet.writerow({"step": _at, "loss": 0.5, "rate": 0.1, "seconds": 1.0})"""
_SENTENCES: Final = """import collections as _collections
_meant = [f"word{7919 * _at % 211}" for _at in range({n})]
_given = [f"word{104729 * _at % 199}" for _at in range({n})]
"""
_MATCHED: Final = """_overlap = 0
for _length in range(1, 5):
    _grams, _others = (
        _collections.Counter(zip(*(_text[_at:] for _at in range(_length))))
        for _text in (_meant, _given)
    )
    _overlap += sum((_grams & _others).values())"""
_MEMORY: Final = """import collections as _collections
import random as _random
_memory = _collections.deque(range(20_000), maxlen=20_000)
_luck = _random.Random(1)
"""
_DRAWN: Final = "_drawn = [_memory[_luck.randrange(20_000)] for _ in range({n})]"
_RAISED: Final = "import traceback as _traceback\n"
_TOLD: Final = """for _at in range({n}):
    try:
        raise ValueError(_at)
    except ValueError:
        _told = _traceback.format_exc()"""
_KEPT: Final = """import dbm.dumb as _dumb
import os as _os
import tempfile as _tempfile
_progress = _dumb.open(_os.path.join(_tempfile.mkdtemp(), "progress"), "n")
"""
_PUT: Final = """for _at in range({n}):
    _progress[f"step{_at % 8}"] = b"loss 0.5"
_progress.sync()"""
_BELLS: Final = "import math as _math\nimport torch as _torch\n"
_BELL: Final = """_bell = _torch.tensor(
    [
        [_math.exp(-((_x - 7) ** 2 + (_y - 7) ** 2) / 8) for _x in range(15)]
        for _y in range({n})
    ]
)"""
_VOCABULARY: Final = """_uses = {f"word{_at}": 7919 * _at % 9973 for _at in range({n})}
"""
_SORTED: Final = "_common = sorted(_uses.items(), key=lambda word: (-word[1], word[0]))[:20]"
_GROWN: Final = """_text = ""
for _at in range({n}):
    _text = f"{_at}: 0.5; " + _text[:4000]"""
_GAME: Final = """def _search(left, mine, depth):
    if depth == 0 or left <= 0:
        return left % 3 - mine
    values = [-_search(left - take, -mine, depth - 1) for take in (1, 2, 3)]
    return max(values)


"""
_PLAYED: Final = "for _at in range({n}):\n    _value = _search(21 + _at % 5, 1, 4)"
_STREETS: Final = """import heapq as _heapq
_streets = [[1 + 7919 * (_x + 13 * _y) % 9 for _x in range(12)] for _y in range(12)]
"""
_WALKED: Final = """for _ in range({n}):
    _far, _open = {(0, 0): 0}, [(0, 0, 0)]
    while _open:
        _way, _x, _y = _heapq.heappop(_open)
        for _u, _v in ((_x + 1, _y), (_x, _y + 1), (_x - 1, _y), (_x, _y - 1)):
            if 0 <= _u < 12 and 0 <= _v < 12:
                _longer = _way + _streets[_v][_u]
                if _longer < _far.get((_u, _v), 1e9):
                    _far[_u, _v] = _longer
                    _heapq.heappush(_open, (_longer, _u, _v))"""
_HELPERS: Final = "from concurrent.futures import ThreadPoolExecutor as _Helpers\n"
_HELPED: Final = """for _ in range({n}):
    with _Helpers(4) as _helpers:
        _sums = list(_helpers.map(sum, ([1, 2], [3, 4], [5, 6], [7, 8])))"""
_LOSSES: Final = """import numpy as _numpy
_losses, _window = _numpy.ones({n}), _numpy.ones(100) / 100
"""
_CROWD: Final = """import numpy as _numpy
_crowd = _numpy.random.default_rng(1).random((400, 8))
"""
_MOVED: Final = """_centres = _crowd[:10]
for _ in range({n}):
    _nearest = ((_crowd[:, None] - _centres[None]) ** 2).sum(-1).argmin(1)
    _centres = _numpy.stack([_crowd[_nearest == _at].mean(0) for _at in range(10)])"""
_ENTRIES: Final = """_entries = [f"{7919 * _at % 99991:05d}" for _at in range({n})]
"""
_TRIE: Final = """_roots = {}
for _entry in _entries:
    _node = _roots
    for _sign in _entry:
        _node = _node.setdefault(_sign, {})"""
_RATES: Final = """import torch as _torch
_rated = _torch.optim.SGD([_torch.nn.Parameter(_torch.zeros(1))], lr=0.1)
_plans = [_torch.optim.lr_scheduler.CosineAnnealingLR(_rated, 1000) for _ in range({n})]
"""
_PLANNED: Final = "for _plan in _plans:\n    _plan.step()"
_RUNS: Final = """_runs = [(7919 * _at % 1009, 104729 * _at % 997) for _at in range({n})]
"""
_TWICE: Final = """_twice = [
    _run for _at, _run in enumerate(_runs) if _run in _runs[max(0, _at - 50) : _at]
]"""
_RANKS: Final = """_first = [7919 * _at % 211 for _at in range(60)]
_second = [104729 * _at % 199 for _at in range(60)]
"""
_AGREED: Final = """for _ in range({n}):
    _agreed = sum(
        (_first[_a] - _first[_b]) * (_second[_a] - _second[_b]) > 0
        for _a in range(60)
        for _b in range(_a)
    )"""
_LIBRARY: Final = """import os as _os
import pathlib as _pathlib
import tempfile as _tempfile
_shelf = _pathlib.Path(_tempfile.mkdtemp())
for _at in range(40):
    (_shelf / f"part{_at}").mkdir()
    (_shelf / f"part{_at}" / "model.pt").write_bytes(b"0")
"""
_BOOKS: Final = """for _ in range({n}):
    _books = sum(_path.stat().st_size for _path in _shelf.rglob("*.pt"))"""

_KINDS: Final = (
    ("names-like-others", "close-names", _ALIKE, 1300.0, MUCH, _NAMES, PYTHON, ()),
    ("summary-in-a-form", "filled-forms", _WORDED, 3.0, SOME, _FORM, PYTHON, QUIET),
    ("report-as-a-tree", "report-trees", _REPORTED, 3.6, MUCH, _TREE, PYTHON, QUIET),
    ("sheet-by-names", "named-sheets", _WRITTEN, 2.6, LITTLE, _SHEET, PYTHON, QUIET),
    ("grams-compared", "compared-grams", _MATCHED, 1.8, MOST, _SENTENCES, PYTHON, ()),
    ("memory-reached-into", "reached-memories", _DRAWN, 0.9, MUCH, _MEMORY, PYTHON, ()),
    ("failures-told", "told-failures", _TOLD, 50.0, SOME, _RAISED, PYTHON, QUIET),
    ("progress-in-a-base", "progress-bases", _PUT, 12.0, MUCH, _KEPT, FILES, QUIET),
    ("bell-by-hand", "hand-made-bells", _BELL, 6.5, SOME, _BELLS, (*ARRAYS, "G304"), ()),
    ("vocabulary-sorted", "sorted-words", _SORTED, 0.7, MOST, _VOCABULARY, PYTHON, ()),
    ("text-grown-in-front", "grown-texts", _GROWN, 0.9, LITTLE, "", PYTHON, QUIET),
    ("moves-looked-ahead", "searched-moves", _PLAYED, 28.0, MUCH, _GAME, PYTHON, ()),
    ("streets-walked", "walked-streets", _WALKED, 220.0, SOME, _STREETS, PYTHON, ()),
    ("helpers-hired", "hired-helpers", _HELPED, 170.0, MUCH, _HELPERS, (*PYTHON, "G220"), ()),
    (
        "losses-smoothed",
        "smoothed-losses",
        "_smooth = _numpy.convolve(_losses, _window)",
        0.021,
        SOME,
        _LOSSES,
        ARRAYS,
        QUIET,
    ),
    ("centres-moved", "moved-centres", _MOVED, 420.0, MOST, _CROWD, ARRAYS, ()),
    ("entries-in-branches", "branched-entries", _TRIE, 2.2, MUCH, _ENTRIES, PYTHON, ()),
    ("rates-by-many-plans", "rate-plans", _PLANNED, 4.0, LITTLE, _RATES, (*PYTHON, "G304"), ()),
)
_OCCASIONS: Final = (
    ("doubles-now-and-then", "double-runs", _TWICE, 1.2, SOME, _RUNS),
    ("ranks-now-and-then", "agreed-ranks", _AGREED, 190.0, MUCH, _RANKS),
    ("shelf-counted-now-and-then", "counted-shelves", _BOOKS, 900.0, SOME, _LIBRARY),
)
PLANTS: Final = (
    *(
        Plant(name, family, beside(text, unit, share, top), codes, fixes, at_line=True)
        for name, family, text, unit, share, top, codes, fixes in _KINDS
    ),
    *(
        Plant(
            name,
            family,
            seldom(text, unit, share, top),
            (*SELDOM, "G215", "G703"),
            (*QUIET, "evaluate-every"),
            at_line=True,
        )
        for name, family, text, unit, share, top in _OCCASIONS
    ),
)
