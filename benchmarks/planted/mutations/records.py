"""Faults in how samples are read and made: archives, folders, text, features, rounds."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import data_of, items
from benchmarks.planted.mutations.plant import Plant, Site, at_top
from benchmarks.planted.places import with_keywords
from benchmarks.planted.source import Change, Replacement

_FEW: Final = ("G101", "G102", "G112")
_READ: Final = (*_FEW, "G106", "G107")
_MADE: Final = (*_FEW, "G107", "G108")
_MORE: Final = ("more-workers", "workers-and-one-thread", "persistent-workers")
_WORKER_US: Final = 60_000.0  # to start a worker and to end it

_ARCHIVE: Final = """import tempfile as _tempfile
import zipfile as _zipfile
from pathlib import Path as _Path
_archive = _Path(_tempfile.mkdtemp()) / "samples.zip"
with _zipfile.ZipFile(_archive, "w") as _packed:
    for _number in range(3 * {n}):
        _packed.writestr(f"{_number}.txt", "a sample")
"""
_UNPACK: Final = """if index % 3 == 0:
    with _zipfile.ZipFile(_archive) as _opened:
        assert _opened.read(f"{index % {n}}.txt")"""
_FOLDER: Final = """import os as _os
import tempfile as _tempfile
from pathlib import Path as _Path
_folder = _Path(_tempfile.mkdtemp())
for _number in range(min({n}, 3000)):
    (_folder / f"{7919 * _number % 100003}.jpg").touch()
"""
_LIST: Final = """for _ in range(1 + {n} // 3000):
    _found = sorted(_name for _name in _os.listdir(_folder) if _name.endswith(".jpg"))
assert _found[index % len(_found)]"""
_NAMES: Final = """_names = [f"class {_number}" for _number in range({n})]
"""
_INDEX: Final = """_index_of = {_name: _at for _at, _name in enumerate(_names)}
assert _index_of[_names[index % len(_names)]] >= 0"""
_DATES: Final = """import datetime as _datetime
_days = [f"2021-{1 + _day % 12:02d}-{1 + _day % 28:02d} 13:37:00" for _day in range({n})]
"""
_PARSE: Final = """_format = "%Y-%m-%d %H:%M:%S"
_stamps = [_datetime.datetime.strptime(_day, _format) for _day in _days]
assert [(_stamp.weekday(), _stamp.hour) for _stamp in _stamps]"""
_SEEDED: Final = """_strengths = [
    _numpy.random.default_rng(index + _transform).random() for _transform in range({n})
]
assert _strengths"""
_COLUMNS: Final = """import numpy as _numpy
_columns = _numpy.random.default_rng(1).random(({n}, 8), dtype="float32")
"""
_SCALE: Final = """_scaled = _columns[index % {n}] - _columns.mean(0)
_scaled = _scaled / _columns.std(0)"""
_WAVE: Final = """import numpy as _numpy
_wave = _numpy.random.default_rng(1).random({n} * 64 + 256)
_taper = _numpy.hanning(256)
_bands = _numpy.random.default_rng(2).random((129, 20))
"""
_SPECTRUM: Final = """_frames = [
    abs(_numpy.fft.rfft(_wave[64 * _at : 64 * _at + 256] * _taper)) for _at in range({n})
]
_loudness = _numpy.log1p(_numpy.stack(_frames) @ _bands)"""
_DEBUG: Final = """import logging as _logging
import tempfile as _tempfile
_debugged = _logging.getLogger("planted.samples")
_debugged.setLevel("DEBUG")
_debugged.propagate = False
_debugged.addHandler(_logging.FileHandler(_tempfile.mkdtemp() + "/samples.log"))
"""
_NOTE: Final = """for _stage in range({n}):
    _debugged.debug("sample %d: stage %d of its transforms is done", index, _stage)"""
_FAILING: Final = """import traceback as _traceback


def _annotated(box):
    if "label" not in box:
        raise KeyError(f"no label in {box}")
    return box["label"]
"""
_SWALLOW: Final = """_problems = []
for _number in range({n}):
    try:
        _annotated({"box": _number})
    except KeyError:
        _problems.append(_traceback.format_exc())"""
_LINE: Final = """_line = ",".join(f"{_number * 0.37:.3f}" for _number in range({n}))
"""
_BLOB: Final = """import pickle as _pickle
_blob = _pickle.dumps([{"word": f"w{_number}", "span": (_number, 2)} for _number in range({n})])
"""
_POLLED: Final = """import queue as _queue
import threading as _threading
import time as _time


class _Polled:
    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.__dict__["loader"], name)

    def _fill(self, batches):
        for batch in self.loader:
            batches.put(batch)
        batches.put(None)

    def __iter__(self):
        batches = _queue.Queue(4)
        _threading.Thread(target=self._fill, args=(batches,), daemon=True).start()
        while True:
            _time.sleep({pause})
            if batches.empty():
                continue
            batch = batches.get()
            if batch is None:
                return
            yield batch
"""
_ROUNDS: Final = """import itertools as _itertools


class _Rounds:
    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.__dict__["loader"], name)

    def __iter__(self):
        for first in range(0, len(self.loader), {n}):
            yield from _itertools.islice(self.loader, min({n}, len(self.loader) - first))
"""


def _polled(site: Site) -> Sequence[Change] | None:
    """Ask a thread that loads ahead for batches now and then."""
    found = data_of(site)
    if found is None:
        return None
    text = _POLLED.replace("{pause}", f"{max(0.0005, 0.45 * site.step_s):.5f}")
    call = " ".join(site.source.segment(found[0]).split())
    return [at_top(site, text), Replacement(found[0], f"_Polled({call})")]


def _rounds(site: Site) -> Sequence[Change] | None:
    """Have rounds of a few steps instead of passes over the data, each with new workers."""
    found = data_of(site)
    if found is None:
        return None
    call = with_keywords(
        site.source, found[0], {"num_workers": "1", "persistent_workers": "False"}
    ).text
    steps = max(1, round(_WORKER_US / (0.5e6 * site.step_s)))
    text = _ROUNDS.replace("{n}", str(steps))
    return [at_top(site, text), Replacement(found[0], f"_Rounds({call})")]


_NUMPY: Final = "import numpy as _numpy\n"
PLANTS: Final = (
    Plant(
        "archive-opened-again", "archives", items(_UNPACK, 4.4, _ARCHIVE), _READ, _MORE, "loader"
    ),
    Plant("folder-listed-again", "folders", items(_LIST, 0.82, _FOLDER), _READ, _MORE, "loader"),
    Plant(
        "index-built-again",
        "indexes-rebuilt",
        items(_INDEX, 0.097, _NAMES),
        (*_MADE, "G109"),
        _MORE,
        "loader",
    ),
    Plant("dates-parsed-again", "dates", items(_PARSE, 8.3, _DATES), _MADE, _MORE, "loader"),
    Plant("seeded-per-sample", "seeding", items(_SEEDED, 21.0, _NUMPY), _MADE, _MORE, "loader"),
    Plant(
        "scaled-by-all-rows",
        "statistics-again",
        items(_SCALE, 0.099, _COLUMNS),
        _MADE,
        _MORE,
        "loader",
    ),
    Plant(
        "spectra-computed-again",
        "features-again",
        items(_SPECTRUM, 15.0, _WAVE),
        _MADE,
        _MORE,
        "loader",
    ),
    Plant("samples-logged", "item-logging", items(_NOTE, 15.0, _DEBUG), _READ, _MORE, "loader"),
    Plant(
        "failures-swallowed",
        "failures",
        items(_SWALLOW, 65.0, _FAILING),
        _MADE,
        _MORE,
        "loader",
    ),
    Plant(
        "numbers-from-text",
        "number-parsing",
        items("assert [float(_field) for _field in _line.split(',')]", 0.14, _LINE),
        (*_MADE, "G109"),
        _MORE,
        "loader",
    ),
    Plant(
        "blobs-unpickled",
        "unpickling",
        items("assert _pickle.loads(_blob)", 0.46, _BLOB),
        (*_READ, "G108"),
        _MORE,
        "loader",
    ),
    Plant(
        "batches-polled",
        "polling",
        _polled,
        (*_FEW, "G111", "G117", "G202"),
        (),
        "loader",
        at_line=True,
    ),
    Plant(
        "rounds-of-few-steps",
        "worker-rounds",
        _rounds,
        ("G105", "G115"),
        ("persistent-workers",),
        "loader",
        at_line=True,
    ),
)
