"""Faults in how samples are read, drawn and described."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import in_samples
from benchmarks.planted.mutations.opened.wording import (
    FEW,
    MADE,
    MORE,
    TORCH,
)
from benchmarks.planted.mutations.plant import Plant

_SHARE: Final = (0.7, 0.7)  # of a healthy step
_READ: Final = (*FEW, "G106", "G107")
_WORDS: Final = (*FEW, "G109")


_GRID: Final = """import numpy as _numpy
_across, _down = _numpy.meshgrid(_numpy.arange(64.0), _numpy.arange(64.0))
"""
_HEATMAPS: Final = """_heatmaps = _numpy.zeros((16, 64, 64), dtype="float32")
for _joint in range({n}):
    _x, _y = (7 * index + 11 * _joint) % 64, (5 * index + 3 * _joint) % 64
    _heatmaps[_joint % 16] = _numpy.exp(-((_across - _x) ** 2 + (_down - _y) ** 2) / 8.0)"""
_FRAME: Final = """import numpy as _numpy
import pandas as _pandas
_frame = _pandas.DataFrame(
    {
        "name": [f"sample{_row}.png" for _row in range(3000)],
        "label": _numpy.arange(3000) % 10,
        "left": _numpy.linspace(0.0, 1.0, 3000),
        "person": _numpy.arange(3000) % 400,
    }
)
"""
_ROW: Final = """for _row in range({n}):
    _record = _frame.iloc[(index + _row) % 3000]
    _label, _left = int(_record["label"]), float(_record["left"])"""
_FILTER: Final = """for _row in range({n}):
    _visits = _frame[(_frame["person"] == (index + _row) % 400) & (_frame["label"] < 9)]
    _named = _visits["name"].tolist()"""
_CONTAINER: Final = """import os as _os
import tempfile as _tempfile
import h5py as _h5py
import numpy as _numpy
_container = _os.path.join(_tempfile.mkdtemp(), "features.h5")
with _h5py.File(_container, "w") as _file:
    _file["features"] = _numpy.zeros((500, 64), dtype="float32")
"""
_REOPENED: Final = """for _row in range({n}):
    with _h5py.File(_container, "r") as _file:
        _features = _file["features"][(index + _row) % 500]"""
_ARRAY: Final = """import os as _os
import tempfile as _tempfile
import numpy as _numpy
_array_path = _os.path.join(_tempfile.mkdtemp(), "features.npy")
_numpy.save(_array_path, _numpy.zeros((500, 64), dtype="float32"))
"""
_MAPPED: Final = """for _row in range({n}):
    _features = _numpy.array(_numpy.load(_array_path, mmap_mode="r")[(index + _row) % 500])"""
_SENTENCE: Final = """import random as _random
_chance = _random.Random(1)
_sentence = [7919 * _at % 30011 for _at in range({n})]
"""
_MASKED: Final = """_masked, _targets = list(_sentence), []
for _at, _token in enumerate(_sentence):
    _draw = _chance.random()
    if _draw < 0.15:
        _masked[_at] = 103 if _draw < 0.12 else _chance.randrange(30011)
        _targets.append(_token)
    else:
        _targets.append(-100)"""
_BOUGHT: Final = """import random as _random
_chance = _random.Random(1)
_bought = [3 * _at for _at in range(150)]
"""
_REJECTED: Final = """_negatives = []
while len(_negatives) < {n}:
    _candidate = _chance.randrange(3000)
    if _candidate not in _bought:
        _negatives.append(_candidate)"""
_FOLDER: Final = """import os as _os
import tempfile as _tempfile
_folder = _tempfile.mkdtemp()
"""
_EXISTING: Final = """_there = []
for _at in range({n}):
    _path = _os.path.join(_folder, "pictures", f"{index + _at}.png")
    if _os.path.isfile(_path):
        _there.append(_path)"""
_RUNS: Final = """import numpy as _numpy
_runs = [(31 * _at % 60000, 1 + 7 * _at % 19) for _at in range({n})]
"""
_UNROLLED: Final = """_mask = _numpy.zeros(65536, dtype="uint8")
for _start, _length in _runs:
    _mask[_start : _start + _length] = 1
_mask = _mask.reshape(256, 256).T"""
_CLOUD: Final = """import numpy as _numpy
_cloud = _numpy.random.default_rng(1).normal(size=(1024, 3)).astype("float32")
"""
_FARTHEST: Final = """_distances = _numpy.full(1024, 1e10, dtype="float32")
_chosen, _place = [], index % 1024
for _ in range({n}):
    _chosen.append(_place)
    _away = ((_cloud - _cloud[_place]) ** 2).sum(1)
    _distances = _numpy.minimum(_distances, _away)
    _place = int(_distances.argmax())"""
_ELEMENTS: Final = """_target = _torch.zeros(64)
for _at in range({n}):
    _target[_at % 64] = float(index % 7 + _at)"""
_PICTURE: Final = """import numpy as _numpy
from PIL import Image as _Image
_pixels = _numpy.random.default_rng(1).integers(0, 255, (64, 64, 3))
_picture = _Image.fromarray(_pixels.astype("uint8"))
"""
_ROTATED: Final = """for _angle in range({n}):
    _turned = _picture.rotate((13 * index + _angle) % 30 - 15, _Image.Resampling.BICUBIC)"""
_POLYGON: Final = """import math as _math
_corners = [(9.0 * _math.cos(_at / 3), 9.0 * _math.sin(_at / 3)) for _at in range(19)]


def _inside(x, y):
    within, before = False, _corners[-1]
    for corner in _corners:
        if (corner[1] > y) != (before[1] > y):
            slope = (before[0] - corner[0]) / (before[1] - corner[1])
            within ^= x < corner[0] + slope * (y - corner[1])
        before = corner
    return within
"""
_COVERED: Final = """_covered = sum(
    _inside(_at % 21 - 10.0, (_at // 21 + index) % 21 - 10.0) for _at in range({n})
)"""
_GENOME: Final = """_strand = "".join("ACGT"[7919 * _at % 1013 % 4] for _at in range({n} + 6))
"""
_LETTERS: Final = """_words = {}
for _at in range({n}):
    _word = _strand[_at : _at + 6]
    _words[_word] = _words.get(_word, 0) + 1"""

PLANTS: Final = (
    Plant(
        "heatmaps-drawn-again",
        "heatmaps",
        in_samples(_HEATMAPS, 55.0, _SHARE, _GRID),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "row-of-frame",
        "frame-rows",
        in_samples(_ROW, 100.0, _SHARE, _FRAME),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "frame-filtered-again",
        "frame-filters",
        in_samples(_FILTER, 1200.0, _SHARE, _FRAME),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "container-opened-again",
        "containers",
        in_samples(_REOPENED, 950.0, _SHARE, _CONTAINER),
        _READ,
        MORE,
        "loader",
    ),
    Plant(
        "array-mapped-again",
        "mapped-arrays",
        in_samples(_MAPPED, 220.0, _SHARE, _ARRAY),
        _READ,
        MORE,
        "loader",
    ),
    Plant(
        "tokens-masked-singly",
        "masked-tokens",
        in_samples(_MASKED, 0.17, _SHARE, _SENTENCE),
        _WORDS,
        MORE,
        "loader",
    ),
    Plant(
        "negatives-rejected",
        "rejected-negatives",
        in_samples(_REJECTED, 4.5, _SHARE, _BOUGHT),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "paths-looked-for",
        "path-checks",
        in_samples(_EXISTING, 7.0, _SHARE, _FOLDER),
        _READ,
        MORE,
        "loader",
    ),
    Plant(
        "runs-unrolled",
        "run-lengths",
        in_samples(_UNROLLED, 0.65, _SHARE, _RUNS),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "farthest-points-chosen",
        "farthest-points",
        in_samples(_FARTHEST, 48.0, _SHARE, _CLOUD),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "elements-filled-singly",
        "element-writes",
        in_samples(_ELEMENTS, 5.0, _SHARE, TORCH),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "pictures-turned-again",
        "rotations",
        in_samples(_ROTATED, 550.0, _SHARE, _PICTURE),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "points-in-polygon",
        "polygon-tests",
        in_samples(_COVERED, 3.2, _SHARE, _POLYGON),
        MADE,
        MORE,
        "loader",
    ),
    Plant(
        "letters-counted-in-window",
        "letter-windows",
        in_samples(_LETTERS, 0.27, _SHARE, _GENOME),
        _WORDS,
        MORE,
        "loader",
    ),
)
