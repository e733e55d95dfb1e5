"""Faults in how samples and batches come about."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
)
from benchmarks.planted.mutations.parts import (
    amount,
    batch_of,
    data_of,
    flat,
    item_amount,
    items,
)
from benchmarks.planted.mutations.plant import ChangeOf, Plant, Site, at_top
from benchmarks.planted.places import with_keywords
from benchmarks.planted.source import Change, Replacement

_SHARE: Final = 0.6  # of a healthy step
_FINE: Final = 1000.0  # parts of a unit that are told apart
_READ: Final = (*FEW, "G106", "G107")
_WORDS: Final = (*FEW, "G109")
_WORDED: Final = "import random as _random\n_chance = _random.Random(1)\n"

_PATTERNS: Final = """import re as _re
_terms = [f"term{_number * 7919 % 100003}" for _number in range({n})]
"""
_COMPILE: Final = """_place = index % len(_terms)
_pattern = _re.compile("|".join([str(index), *_terms[_place:], *_terms[:_place]]))
assert _pattern.search(_terms[0])"""
_BOXES: Final = """import xml.etree.ElementTree as _xml
_annotation = "<annotation>" + "".join(
    f"<object><name>cat</name><x>{_at}</x></object>" for _at in range({n})
) + "</annotation>"
"""
_PARSED: Final = """_tree = _xml.fromstring(_annotation)
assert [(one.findtext("name"), int(one.findtext("x"))) for one in _tree.iter("object")]"""
_TABLE: Final = """import csv as _csv
import tempfile as _tempfile
_table = _tempfile.mkdtemp() + "/labels.csv"
with open(_table, "w") as _written:
    _written.writelines(f"{_at},picture{_at}.png,{_at % 10}\\n" for _at in range({n}))
"""
_LOOKED_UP: Final = """with open(_table, newline="") as _opened:
    _labels = {row[1]: int(row[2]) for row in _csv.reader(_opened)}
assert _labels"""
_RECORD: Final = """import struct as _struct
_record = bytes(range(256)) * (1 + {n} // 64)
"""
_UNPACKED: Final = """_fields = []
for _offset in range(0, 4 * {n}, 4):
    _fields.append(_struct.unpack_from("<f", _record, _offset)[0])"""
_CROPS: Final = """_crop = None
for _attempt in range({n}):
    _width, _height = _chance.uniform(0.1, 1.0), _chance.uniform(0.1, 1.0)
    if _width * _height > 2.0:
        break
    _crop = (_width, _height)"""
_OTHERS: Final = """import numpy as _numpy
_others = _numpy.random.default_rng(1).random(({n}, 16), dtype="float32")
"""
_HARDEST: Final = """_distances = ((_others - _others[index % {n}]) ** 2).sum(1)
_hardest = _numpy.argsort(_distances)[-5:]"""
_OUTLINES: Final = """import math as _math
from PIL import Image as _Image
from PIL import ImageDraw as _ImageDraw
_outline = [
    (64 + 60 * _math.cos(_at / 10), 64 + 60 * _math.sin(_at / 10)) for _at in range(63)
]
"""
_FILLED: Final = """_mask = _Image.new("L", (128, 128))
for _instance in range({n}):
    _ImageDraw.Draw(_mask).polygon(_outline, fill=1 + _instance % 200)"""
_SCHEMA: Final = """_fields = [(f"field{_at}", (int, float)) for _at in range({n})]
_entry = {_name: 0.5 for _name, _ in _fields}


def _validated(entry):
    for name, kinds in _fields:
        if name not in entry:
            raise KeyError(name)
        if not isinstance(entry[name], kinds):
            raise TypeError(name)
    return entry
"""
_BYTES: Final = """import hashlib as _hashlib
_content = bytes({n} * 1000)
_expected = _hashlib.sha256(_content).hexdigest()
"""
_STAGED: Final = """import os as _os
import tempfile as _tempfile
_payload = b"staged " * 500
"""
_STAGE: Final = """for _copy in range({n}):
    with _tempfile.NamedTemporaryFile(delete=False) as _file:
        _file.write(_payload)
    with open(_file.name, "rb") as _file:
        assert _file.read()
    _os.unlink(_file.name)"""
_LEVELS: Final = """import numpy as _numpy
_levels = _numpy.random.default_rng(1).integers(0, 256, {n})
"""
_EQUALISED: Final = """_counts = _numpy.bincount(_levels, minlength=256).cumsum()
_even = _numpy.interp(_levels, range(256), 255 * _counts / _counts[-1])"""
_RAW: Final = """import unicodedata as _unicode
_raw = "Ärger über ﬁne Straßen … " * (1 + {n} // 24)
"""
_CLEANED: Final = """_clean = "".join(
    sign for sign in _unicode.normalize("NFKD", _raw) if not _unicode.combining(sign)
).casefold().split()"""
_LINKS: Final = """_links = [(7919 * _at % 997, 104729 * _at % 991) for _at in range({n})]
"""
_LINKED: Final = """_neighbours = {}
for _source, _target in _links:
    _neighbours.setdefault(_source, set()).add(_target)
    _neighbours.setdefault(_target, set()).add(_source)"""
_QUOTA: Final = """import time as _time


class _Quota:
    def __init__(self, pause):
        self.pause, self.due = pause, 0.0

    def take(self):
        now = _time.monotonic()
        self.due = max(now, self.due) + self.pause
        if self.due - now > 0.002:
            _time.sleep(self.due - now)


_quota = _Quota({pause})
"""
_BALANCED: Final = """import random as _random


class _Balanced:
    def __init__(self, records):
        self.records = records
        self.chance = _random.Random(1)

    def __len__(self):
        return len(self.records)

    def __iter__(self):
        for _ in range(len(self.records)):
            place = 0
            for _ in range({n}):
                candidate = self.chance.randrange(len(self.records))
                if candidate % 10 == self.chance.randrange(10):
                    place = candidate
            yield place
"""
_COPIED: Final = """import copy as _copy
from torch.utils.data import default_collate as _default


_collated = []


def _safely_collated(samples):
    _collated.append(0)
    for _ in range({n} if len(_collated) % {each} == 0 else 0):
        samples = [_copy.copy(sample) for sample in _copy.deepcopy(samples)]
    return _default(samples)
"""


def _items(text: str, unit_us: float, top: str, least: int = 1) -> ChangeOf:
    """Have samples do something ``{n}`` times; every few of them, where ``least`` were too many."""

    def change(site: Site) -> Sequence[Change] | None:
        if data_of(site) is None:
            return None
        fitting = item_amount(site, unit_us / _FINE) / _FINE
        number = str(max(least, round(fitting)))
        every = max(1, round(least / fitting))
        rows = text.replace("{n}", number)
        if every > 1:
            indented = "".join(f"\n    {row}" for row in rows.splitlines())
            rows = f"if index % {every} == 0:{indented}"
        return items(rows, unit_us, top.replace("{n}", number))(site)

    return change


def _quota(site: Site) -> Sequence[Change] | None:
    """Have each sample wait for its share of a quota."""
    pause = f"{max(0.00002, _SHARE * site.step_s / batch_of(site)):.6f}"
    return items("_quota.take()", 1.0, _QUOTA.replace("{pause}", pause))(site)


def _balanced(site: Site) -> Sequence[Change] | None:
    """Draw candidates until classes are even, one sample after the other."""
    found = data_of(site)
    if found is None or "sampler" in site.source.segment(found[0]) or found[0].args[2:]:
        return None
    call, data = found
    options = {"shuffle": "False", "sampler": "_Balanced(_given)"}
    new = with_keywords(site.source, call, options).text
    inner = flat(site, data)
    if new.count(inner) != 1:
        return None
    text = new.replace(inner, f"(_given := {inner})")
    number = amount(site, 0.9, _SHARE / batch_of(site))
    return [at_top(site, _BALANCED.replace("{n}", str(number))), Replacement(call, text)]


def _copied(site: Site) -> Sequence[Change] | None:
    """Collate copies of copies."""
    found = data_of(site)
    if found is None or any(keyword.arg == "collate_fn" for keyword in found[0].keywords):
        return None
    unit_us = 20.0 * batch_of(site)
    number = str(amount(site, unit_us, _SHARE))
    every = str(max(1, round(unit_us / (_SHARE * 1e6 * site.step_s))))
    new = with_keywords(site.source, found[0], {"collate_fn": "_safely_collated"})
    top = _COPIED.replace("{n}", number).replace("{each}", every)
    return [at_top(site, top), new]


PLANTS: Final = (
    Plant(
        "patterns-compiled-again",
        "patterns",
        _items(_COMPILE, 5.0, _PATTERNS, 40),
        _WORDS,
        MORE,
        "loader",
    ),
    Plant(
        "annotations-parsed-again",
        "annotations",
        _items(_PARSED, 1.4, _BOXES, 10),
        (*_READ, "G108"),
        MORE,
        "loader",
    ),
    Plant(
        "label-table-read-again",
        "label-tables",
        _items(_LOOKED_UP, 0.45, _TABLE, 50),
        (*_READ, "G109"),
        MORE,
        "loader",
    ),
    Plant(
        "fields-unpacked-singly",
        "binary-fields",
        _items(_UNPACKED, 0.11, _RECORD),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "crops-drawn-in-vain",
        "rejected-crops",
        _items(_CROPS, 0.32, _WORDED),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "hardest-looked-for",
        "hard-samples",
        _items(_HARDEST, 0.05, _OTHERS, 200),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "outlines-filled-again",
        "outlines",
        _items(_FILLED, 22.0, _OUTLINES),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "entries-validated",
        "schemas",
        _items("assert _validated(_entry)", 0.07, _SCHEMA),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "contents-verified",
        "verified-contents",
        _items("assert _hashlib.sha256(_content).hexdigest() == _expected", 0.7, _BYTES),
        _READ,
        MORE,
        "loader",
    ),
    Plant(
        "samples-staged",
        "staged-files",
        _items(_STAGE, 45.0, _STAGED),
        (*_READ, "G215"),
        MORE,
        "loader",
    ),
    Plant(
        "levels-evened", "levels", _items(_EQUALISED, 0.065, _LEVELS, 1000), MADE, MORE, "loader"
    ),
    Plant(
        "texts-cleaned-again",
        "text-cleaning",
        _items(_CLEANED, 0.11, _RAW),
        _WORDS,
        MORE,
        "loader",
    ),
    Plant("links-collected-again", "links", _items(_LINKED, 0.3, _LINKS), MADE, MORE, "loader"),
    Plant("quota-waited-for", "quotas", _quota, (*FEW, "G106", "G117"), MORE, "loader"),
    Plant(
        "classes-evened-by-chance",
        "even-classes",
        _balanced,
        (*FEW, "G114"),
        MORE,
        "loader",
        at_line=True,
    ),
    Plant("collated-from-copies", "collated-copies", _copied, (*FEW, "G110"), MORE, "loader"),
)
