"""Faults of the unseen half: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed, in_samples, seldom
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
    MADE,
    MORE,
    PYTHON,
    READ,
    SELDOM,
    SENT,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import CUDA, Plant

_BESIDE: Final = (0.8, 1.9)  # the same of what a busy GPU leaves to the host
_SCRAMBLED: Final = """for _ in range({n}):
    _state, _bits = 0xACE1, []
    for _ in range(64):
        _bit = (_state ^ _state >> 2 ^ _state >> 3 ^ _state >> 5) & 1
        _state = _state >> 1 | _bit << 15
        _bits.append(_bit)"""
_DRAWN: Final = (
    f"{TIMES}_drawn = _torch.randn(2048, {DEVICE})\n"
    "    while (_far := _drawn.abs() > 2).any():\n"
    f"        _drawn[_far] = _torch.randn(int(_far.sum()), {DEVICE})"
)
_CALIBRATED: Final = (
    f"{rand('_sure', '512')}_right, _apart = _sure > 0.4, 0.0\n"
    f"{TIMES}_inside = (_sure > _at % 15 / 15) & (_sure <= _at % 15 / 15 + 1 / 15)\n"
    "    if _inside.any():\n"
    "        _gap = _right[_inside].float().mean() - _sure[_inside].mean()\n"
    "        _apart += _gap.abs().item() * _inside.float().mean().item()"
)
_TILED: Final = (
    f"_at = _torch.arange(8.0, {DEVICE})\n"
    "_waves = _torch.cos(_torch.pi / 8 * (_at + 0.5) * _at[:, None])\n"
    f"{rand('_tiles', '{n}, 8, 8')}"
    f"{TURNS}_shown = _waves.T @ (_waves @ _tiles @ _waves.T * 4).round() @ _waves"
)
_SOUNDED: Final = (
    f"_window = _torch.hann_window(256, {DEVICE})\n{rand('_loud', '129, 64')}"
    "_turned = _torch.polar(_loud, _loud)\n"
    f"{TIMES}_sound = _torch.istft(_turned, 256, window=_window)\n"
    "    _heard = _torch.stft(_sound, 256, window=_window, return_complex=True)\n"
    "    _turned = _torch.polar(_loud, _heard.angle())"
)
_MIXED: Final = (
    f"{rand('_losses', '1024, 1')}_centres = _losses[:3, 0]\n"
    "_widths, _shares = _torch.ones_like(_centres), _torch.ones_like(_centres) / 3\n"
    f"{TIMES}_logs = -((_losses - _centres) ** 2) / (2 * _widths) - _widths.log() / 2\n"
    "    _mine = (_logs + _shares.log()).softmax(1)\n"
    "    _each = _mine.sum(0) + 1e-6\n"
    "    _centres, _shares = (_mine * _losses).sum(0) / _each, _each / len(_losses)\n"
    "    _widths = (_mine * (_losses - _centres) ** 2).sum(0) / _each + 1e-6"
)
_AWAY: Final = (
    "if not _bank:\n"
    "    _bank.append(_torch.zeros({n}))\n"
    "_held = _bank[0].to({parameters}[0].device)\n"
    "_bank[0] = (_held * 0.99 + 0.01).cpu()"
)
_SUMS: Final = """_event, _table = bytes(range(120)), []
for _at in range(256):
    for _ in range(8):
        _at = _at >> 1 ^ (0x82F63B78 if _at & 1 else 0)
    _table.append(_at)
"""
_CHECKED: Final = f"""{TIMES}_sum = 0xFFFFFFFF
    for _byte in _event:
        _sum = _table[(_sum ^ _byte) & 255] ^ _sum >> 8"""
_STATIONS: Final = """import math as _math
_stations = [(0.02 * _at, 0.07 * _at) for _at in range(24)]


def _over_ground(one, other):
    rise = _math.sin((one[0] - other[0]) / 2) ** 2
    turn = _math.sin((one[1] - other[1]) / 2) ** 2
    return _math.asin(_math.sqrt(rise + _math.cos(one[0]) * _math.cos(other[0]) * turn))

"""
_NEAREST: Final = """for _at in range({n}):
    _here = _stations[(index + _at) % 24]
    _order = sorted(_stations, key=lambda there: _over_ground(_here, there))"""
_GREY: Final = """import numpy as _numpy
_grey = _numpy.arange(1024.0).reshape(32, 32) % 17

"""
_SHARP: Final = """for _ in range({n}):
    _around = _grey[:-2, 1:-1] + _grey[2:, 1:-1] + _grey[1:-1, :-2] + _grey[1:-1, 2:]
    _sharp = (_around - 4 * _grey[1:-1, 1:-1]).var()"""

PLANTS: Final = (
    Plant(
        "bits-scrambled",
        "scrambled-bits",
        in_samples(_SCRAMBLED, 12.0, _BESIDE, ""),
        MADE,
        MORE,
        "loader",
        at_line=True,
    ),
    Plant(
        "drawn-until-inside",
        "truncated-draws",
        beside(_DRAWN, (25.0, 300.0), (0.35, 0.6), TORCH),
        (*READ, *SMALL),
        at_line=True,
    ),
    Plant(
        "sureness-in-bins",
        "calibration-bins",
        beside(_CALIBRATED, (19.0, 150.0), (0.8, 0.9), TORCH),
        (*READ, *SMALL),
        at_line=True,
    ),
    Plant(
        "blocks-of-cosines",
        "cosine-blocks",
        computed(_TILED, (0.2, 0.003), (0.5, 0.8), TORCH, (64, 1.0)),
        BULK,
        at_line=True,
    ),
    Plant(
        "sound-from-loudness",
        "rebuilt-phases",
        beside(_SOUNDED, (160.0, 220.0), (1.2, 1.5), TORCH),
        (*READ, *SMALL),
        at_line=True,
    ),
    Plant(
        "losses-in-three-groups",
        "fitted-mixtures",
        seldom(_MIXED, (60.0, 120.0), (0.4, 0.9), TORCH),
        (*SELDOM, "G201", "G506"),
        at_line=True,
    ),
    Plant(
        "statistics-left-on-host",
        "banks-on-host",
        beside(_AWAY, 0.002, 0.5, f"{TORCH}_bank = []\n"),
        (*SENT, "G308"),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "events-with-check-sums",
        "table-sums",
        beside(_CHECKED, 10.5, (0.6, 1.6), _SUMS),
        (*PYTHON, "G702"),
        at_line=True,
    ),
    Plant(
        "nearest-over-ground",
        "ground-distances",
        in_samples(_NEAREST, 6.0, (0.9, 2.2), _STATIONS),
        MADE,
        MORE,
        "loader",
        at_line=True,
    ),
    Plant(
        "sharpness-looked-at",
        "sharpness-checks",
        in_samples(_SHARP, 10.0, (0.4, 1.4), _GREY),
        MADE,
        MORE,
        "loader",
        at_line=True,
    ),
)
