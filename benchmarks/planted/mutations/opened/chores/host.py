"""Faults in what the host does beside a step."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.wording import (
    FILES,
    PYTHON,
    QUIET,
)
from benchmarks.planted.mutations.parts import amount
from benchmarks.planted.mutations.plant import (
    ChangeOf,
    Plant,
    Site,
    after_step,
    before_backward,
)
from benchmarks.planted.source import Change

_SHARE: Final = 0.5  # of a healthy step


def _chore(text: str, unit_us: float, top: str = "", *, early: bool = False) -> ChangeOf:
    """Do something ``{n}`` times in each step."""

    def change(site: Site) -> Sequence[Change] | None:
        number = str(amount(site, unit_us, _SHARE))
        imports, body = (piece.replace("{n}", number) for piece in (top, text))
        return (before_backward if early else after_step)(body, imports)(site)

    return change


_LOSSES: Final = """import json as _json
_curve = [{"step": _at, "loss": _at * 0.37} for _at in range({n})]
"""
_RANKED: Final = """_runs = [
    {"name": f"run{7919 * _at % 10007}", "loss": 7919 * _at % 1009} for _at in range({n})
]
"""
_LINES: Final = """import re as _re
_line_format = _re.compile(r"step (\\d+): loss ([\\d.]+), rate ([\\d.e-]+)")
_log_lines = [f"step {_at}: loss {_at * 0.37:.4f}, rate 1e-03" for _at in range({n})]
"""
_READ_LINES: Final = """_matches = [_line_format.match(_line).groups() for _line in _log_lines]
_lowest = min(float(_match[1]) for _match in _matches)"""
_PAGE: Final = """import html as _html
import string as _string
_cell = _string.Template("<tr><td>$name</td><td>$value</td></tr>")
"""
_RENDERED: Final = """_page = "".join(
    _cell.substitute(name=_html.escape(f"metric <{_at}>"), value=_at) for _at in range({n})
)"""
_FRAMES: Final = """_frames = [(7 * _at % 90, 11 * _at % 90, 10.0, 12.0) for _at in range(40)]


def _shared_area(one, other):
    width = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    height = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    common = max(0.0, width) * max(0.0, height)
    return common / (one[2] * one[3] + other[2] * other[3] - common)
"""
_SUPPRESSED: Final = """for _at in range({n}):
    _overlap = _shared_area(_frames[_at % 40], _frames[_at // 40 % 40])"""
_NESTED: Final = """import sys as _sys
_cache = {f"key{_at}": [_at, str(_at), (0.5, _at)] for _at in range({n})}


def _weight(value):
    total = _sys.getsizeof(value)
    if isinstance(value, dict):
        total += sum(_weight(key) + _weight(kept) for key, kept in value.items())
    elif isinstance(value, (list, tuple)):
        total += sum(map(_weight, value))
    return total
"""
_HOSTS: Final = """for _ in range({n}):
    _addresses = _socket.getaddrinfo("localhost", 80)"""
_LOCKS: Final = """import os as _os
import tempfile as _tempfile
_lock_path = _tempfile.mkdtemp() + "/training.lock"
"""
_LOCKED: Final = """for _ in range({n}):
    _handle = _os.open(_lock_path, _os.O_CREAT | _os.O_EXCL | _os.O_WRONLY)
    _os.write(_handle, b"1")
    _os.close(_handle)
    _os.unlink(_lock_path)"""
_ARRAYS: Final = """import tempfile as _tempfile
import numpy as _numpy
_kept_path = _tempfile.mkdtemp() + "/features.npy"
_features = _numpy.zeros(({n}, 256), dtype="float32")
"""
_COMBINED: Final = """import itertools as _itertools
_choices = [0.1, 0.3, 1.0, 3.0]
"""
_SEARCHED: Final = """_settings = [
    {"rate": rate, "decay": decay, "others": others}
    for rate, decay, *others in _itertools.islice(_itertools.product(_choices, repeat=12), {n})
]"""
_DOCUMENT: Final = """import textwrap as _textwrap
_notes = "what this run is for and how it was set up " * (1 + {n} // 9)
"""

PLANTS: Final = (
    Plant(
        "curve-serialised-again",
        "serialised-curves",
        _chore("_document = _json.dumps(_curve)", 0.75, _LOSSES),
        (*PYTHON, "G702"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "runs-ranked-again",
        "leaderboards",
        _chore(
            "_leaders = sorted(_runs, key=lambda run: (run['loss'], run['name']))[:5]",
            0.5,
            _RANKED,
            early=True,
        ),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "log-read-by-pattern",
        "log-patterns",
        _chore(_READ_LINES, 0.75, _LINES),
        PYTHON,
        QUIET,
        at_line=True,
    ),
    Plant(
        "page-rendered",
        "rendered-pages",
        _chore(_RENDERED, 2.3, _PAGE, early=True),
        (*PYTHON, "G702"),
        QUIET,
        at_line=True,
    ),
    Plant(
        "overlaps-by-hand",
        "overlaps",
        _chore(_SUPPRESSED, 1.1, _FRAMES, early=True),
        (*PYTHON, "G203"),
        at_line=True,
    ),
    Plant(
        "sizes-added-up",
        "added-sizes",
        _chore("_held = _weight(_cache)", 2.4, _NESTED),
        PYTHON,
        at_line=True,
    ),
    Plant(
        "host-looked-up",
        "host-names",
        _chore(_HOSTS, 9.0, "import socket as _socket\n"),
        (*FILES, "G220"),
        QUIET,
        at_line=True,
    ),
    Plant("lock-file-taken", "lock-files", _chore(_LOCKED, 14.0, _LOCKS), FILES, at_line=True),
    Plant(
        "features-saved",
        "saved-arrays",
        _chore("_numpy.save(_kept_path, _features)", 0.5, _ARRAYS),
        (*FILES, "G701"),
        ("no-checkpoint", *QUIET),
        at_line=True,
    ),
    Plant(
        "notes-wrapped-again",
        "wrapped-notes",
        _chore("_wrapped = _textwrap.fill(_notes, 60)", 0.75, _DOCUMENT),
        PYTHON,
        QUIET,
        at_line=True,
    ),
    Plant(
        "settings-listed-again",
        "listed-settings",
        _chore(_SEARCHED, 1.2, _COMBINED, early=True),
        PYTHON,
        at_line=True,
    ),
)
