"""Faults in how batches come about."""

import ast
from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import (
    amount,
    batch_of,
    data_of,
    flat,
    items,
)
from benchmarks.planted.mutations.plant import Plant, Site, at_top
from benchmarks.planted.places import with_keywords
from benchmarks.planted.source import Change, Replacement

_FEW: Final = ("G101", "G102", "G112")
_MORE: Final = ("more-workers", "workers-and-one-thread", "persistent-workers")
_SAMPLER: Final = ("G114", "G202")
_HANDED: Final = ("G101", "G102", "G110", "G111", "G115", "G202", "G203")
_MANY: Final = 128

_WORDS: Final = """import re as _re
_vocabulary = [f"word{_number}" for _number in range(400)]
_text = ", ".join(_vocabulary[7 * _number % 400] for _number in range({n}))
"""
_MERGES: Final = """_symbols = [chr(97 + 7 * _number % 26) for _number in range(120)]


def _merged(symbols, merges):
    for number in range(merges):
        left, right = chr(97 + number % 26), chr(97 + 7 * number % 26)
        joined, at = [], 0
        while at < len(symbols):
            pair = at + 1 < len(symbols) and symbols[at] == left and symbols[at + 1] == right
            joined.append(left + right if pair else symbols[at])
            at += 2 if pair else 1
        symbols = joined
    return symbols
"""
_PACKED: Final = """import io as _io
import numpy as _numpy
_packed = _io.BytesIO()
_numpy.savez_compressed(_packed, values=_numpy.random.default_rng(1).integers(0, 99, {n}))
"""
_JPEG: Final = """import io as _io
import numpy as _numpy
from PIL import Image as _Image
_side = max(8, int({n} ** 0.5))
_pixels = _numpy.random.default_rng(1).integers(0, 255, (_side // 4 + 1, _side // 4 + 1, 3))
_picture = _Image.fromarray(_pixels.astype("uint8")).resize((_side, _side))
_encoded = _io.BytesIO()
_picture.save(_encoded, "jpeg")
"""
_ROWS: Final = """import numpy as _numpy
_canvas = _numpy.random.default_rng(1).random(({n}, 96))
_kernel = _numpy.hanning(7)
"""
_LOCK: Final = """import fcntl as _fcntl
import json as _json
import tempfile as _tempfile
from pathlib import Path as _Path
_shared = _Path(_tempfile.gettempdir()) / "planted-shared.json"
_shared.write_text(_json.dumps(list(range({n}))))
"""
_SHARDS: Final = """from functools import lru_cache as _lru_cache


@_lru_cache(maxsize=4)
def _shard(number):
    return {f"{number}-{row}": row for row in range({n})}
"""
_LINES: Final = """import itertools as _itertools
import tempfile as _tempfile
from pathlib import Path as _Path
_table = _Path(_tempfile.gettempdir()) / "planted-table.csv"
_table.write_text("".join(f"{_number},{_number % 7},some words\\n" for _number in range({n})))
"""
_BASE: Final = """import sqlite3 as _sqlite
import tempfile as _tempfile
from pathlib import Path as _Path
_base = _Path(_tempfile.gettempdir()) / "planted-base.sqlite"
_base.unlink(missing_ok=True)
with _sqlite.connect(_base) as _rows:
    _rows.execute("create table samples (name text, label integer)")
    _names = ((f"sample {_number}", _number % 10) for _number in range({n}))
    _rows.executemany("insert into samples values (?, ?)", _names)
_rows.close()
"""
_FIND: Final = """_rows = _sqlite.connect(_base)
_rows.execute("select max(label) from samples where name = ?", (f"sample {index}",)).fetchall()
_rows.close()"""
_NEGATIVES: Final = """import torch as _torch
_draws = _torch.Generator()
"""
_RECORD: Final = """import copy as _copy
_record = {f"box{_number}": [_number, {"label": "some"}] for _number in range({n})}
"""
_WEIGHTED: Final = """import random as _random


class _Weighted:
    def __init__(self, records):
        self.number = len(records)
        self.weights = [1.0 + row % 7 for row in range({n})]
        self.random = _random.Random(0)

    def __len__(self):
        return self.number

    def __iter__(self):
        for _ in range(self.number):
            yield self.random.choices(range({n}), self.weights)[0] % self.number
"""
_BUCKETED: Final = """class _Bucketed:
    def __init__(self, records, size):
        self.number = len(records)
        self.size = size
        self.lengths = {row: 7919 * row % 1009 for row in range({n})}

    def __len__(self):
        return self.number // self.size

    def __iter__(self):
        for batch in range(len(self)):
            rows = sorted(self.lengths, key=lambda row: (self.lengths[row], row))
            first = batch * self.size
            yield [rows[(first + at) % len(rows)] % self.number for at in range(self.size)]
"""
_STACKED: Final = """import torch as _torch
from torch.utils import _pytree as _tree
from torch.utils.data import default_collate as _default_collate


def _apart(samples):
    return [_default_collate(samples[at::{n}]) for at in range(min({n}, len(samples)))]


def _together(*parts):
    return _torch.cat(parts) if isinstance(parts[0], _torch.Tensor) else parts[0]


class _Stacked:
    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.__dict__["loader"], name)

    def __iter__(self):
        for parts in self.loader:
            yield _tree.tree_map(_together, *parts)
"""
_REGROUPED: Final = """import torch as _torch
from torch.utils import _pytree as _tree


def _joined(*parts):
    return _torch.cat(parts) if isinstance(parts[0], _torch.Tensor) else parts[0]


class _Regrouped:
    def __init__(self, loader, pieces):
        self.loader = loader
        self.pieces = pieces

    def __len__(self):
        return max(1, len(self.loader) // self.pieces)

    def __getattr__(self, name):
        return getattr(self.__dict__["loader"], name)

    def __iter__(self):
        parts = []
        for part in self.loader:
            parts.append(part)
            if len(parts) == self.pieces:
                yield _tree.tree_map(_joined, *parts)
                parts = []
"""


def _parts(site: Site, call: ast.Call, data: str, without: Sequence[str]) -> list[str]:
    """Give the arguments of a loader but some, its data set under a name."""
    kept = [keyword for keyword in call.keywords if keyword.arg not in without]
    return [
        f"_given := {data}",
        *(f"{keyword.arg}={flat(site, keyword.value)}" for keyword in kept),
    ]


def _weighted(site: Site) -> Sequence[Change] | None:
    """Draw samples by weights whose sums are made anew for each."""
    found = data_of(site)
    if found is None or "sampler" in site.source.segment(found[0]) or found[0].args[2:]:
        return None
    call, data = found
    options = {"shuffle": "False", "sampler": "_Weighted(_given)"}
    new = with_keywords(site.source, call, options).text
    inner = flat(site, data)
    if new.count(inner) != 1:
        return None
    text = new.replace(inner, f"(_given := {inner})")
    number = amount(site, 0.021, 0.7 / batch_of(site))
    return [at_top(site, _WEIGHTED.replace("{n}", str(number))), Replacement(call, text)]


def _bucketed(site: Site) -> Sequence[Change] | None:
    """Sort all samples by length for each batch."""
    found = data_of(site)
    if (
        found is None
        or len(found[0].args) > 1
        or any(keyword.arg is None for keyword in found[0].keywords)
    ):
        return None
    call, data = found
    sizes = [flat(site, keyword.value) for keyword in call.keywords if keyword.arg == "batch_size"]
    if not sizes or "sampler" in site.source.segment(call):
        return None
    without = ("dataset", "batch_size", "shuffle", "drop_last")
    parts = _parts(site, call, flat(site, data), without)
    parts.append(f"batch_sampler=_Bucketed(_given, {sizes[0]})")
    text = _BUCKETED.replace("{n}", str(amount(site, 0.7)))
    return [
        at_top(site, text),
        Replacement(call, f"{site.source.segment(call.func)}({', '.join(parts)})"),
    ]


def _stacked(site: Site) -> Sequence[Change] | None:
    """Send samples from a worker in small stacks, and join them in the training process."""
    found = data_of(site)
    if found is None or "collate_fn" in site.source.text or batch_of(site) > _MANY:
        return None
    options = {"collate_fn": "_apart"} | _worker(site, found[0])
    call = with_keywords(site.source, found[0], options)
    pieces = min(amount(site, 2500.0, least=3), max(2, batch_of(site)))
    text = _STACKED.replace("{n}", str(pieces))
    return [at_top(site, text), Replacement(found[0], f"_Stacked({call.text})")]


def _worker(site: Site, call: ast.Call) -> dict[str, str]:
    """Give one worker to a loader that has none."""
    some = "num_workers" in site.source.segment(call)
    return {} if some else {"num_workers": "1", "persistent_workers": "True"}


def _regrouped(site: Site) -> Sequence[Change] | None:
    """Have workers hand over small batches, of which several make one of the training."""
    found = data_of(site)
    if found is None or "collate_fn" in site.source.text:
        return None
    sizes = [
        flat(site, keyword.value) for keyword in found[0].keywords if keyword.arg == "batch_size"
    ]
    if not sizes:
        return None
    pieces = min(amount(site, 2500.0, least=3), max(2, batch_of(site)))
    size = {"batch_size": f"max(1, ({sizes[0]}) // {pieces})"}
    call = with_keywords(site.source, found[0], size | _worker(site, found[0]))
    return [
        at_top(site, _REGROUPED),
        Replacement(found[0], f"_Regrouped({call.text}, min({pieces}, {sizes[0]}))"),
    ]


PLANTS: Final = (
    Plant(
        "words-looked-up-in-list",
        "tokenising",
        items("assert [_vocabulary.index(_w) for _w in _re.findall(r'\\w+', _text)]", 3.0, _WORDS),
        (*_FEW, "G107", "G108", "G109"),
        _MORE,
        "loader",
    ),
    Plant(
        "merged-by-hand",
        "tokenising",
        items("assert _merged(_symbols, {n})", 11.5, _MERGES),
        (*_FEW, "G107", "G108", "G109"),
        _MORE,
        "loader",
    ),
    Plant(
        "inflated-again",
        "decoding-again",
        items("_numpy.load(_io.BytesIO(_packed.getvalue()))['values']", 0.02, _PACKED),
        (*_FEW, "G107", "G108"),
        _MORE,
        "loader",
    ),
    Plant(
        "pictures-resized",
        "decoding-again",
        items(
            "_numpy.asarray(_Image.open(_encoded).convert('RGB').resize((32, 32)))",
            0.014,
            _JPEG,
            ("torchvision", "PIL", "Conv2d"),
        ),
        (*_FEW, "G107", "G108"),
        _MORE,
        "loader",
    ),
    Plant(
        "rows-blurred-one-by-one",
        "augmenting-by-hand",
        items("[_numpy.convolve(_row, _kernel, 'same') for _row in _canvas]", 1.3, _ROWS),
        (*_FEW, "G107", "G108"),
        _MORE,
        "loader",
    ),
    Plant(
        "shared-file-locked",
        "locking",
        items(
            "with _shared.open() as _held:\n"
            "    _fcntl.flock(_held, _fcntl.LOCK_EX)\n"
            "    _json.load(_held)",
            0.05,
            _LOCK,
        ),
        (*_FEW, "G106", "G107"),
        _MORE,
        "loader",
    ),
    Plant(
        "shards-thrown-out",
        "caches-missed",
        items("assert _shard(index % 64)", 0.38, _SHARDS),
        (*_FEW, "G106", "G107"),
        _MORE,
        "loader",
    ),
    Plant(
        "lines-skipped",
        "random-access",
        items(
            "with _table.open() as _lines:\n    list(_itertools.islice(_lines, {n} - 1, None))",
            0.1,
            _LINES,
        ),
        (*_FEW, "G106", "G107"),
        _MORE,
        "loader",
    ),
    Plant(
        "rows-without-index",
        "random-access",
        items(_FIND, 0.085, _BASE),
        (*_FEW, "G106", "G107"),
        _MORE,
        "loader",
    ),
    Plant(
        "negatives-permuted",
        "permuting",
        items("_torch.randperm({n}, generator=_draws)[:5]", 0.012, _NEGATIVES),
        (*_FEW, "G107", "G108", "G113"),
        _MORE,
        "loader",
    ),
    Plant(
        "records-copied",
        "deep-copies",
        items("_copy.deepcopy(_record)", 3.0, _RECORD),
        (*_FEW, "G107", "G108"),
        _MORE,
        "loader",
    ),
    Plant("weights-summed-again", "drawing", _weighted, _SAMPLER, (), "loader"),
    Plant("sorted-for-each-batch", "drawing", _bucketed, _SAMPLER, (), "loader"),
    Plant("stacked-late", "handing-over", _stacked, _HANDED, (), "loader"),
    Plant("handed-over-in-pieces", "handing-over", _regrouped, _HANDED, (), "loader"),
)
