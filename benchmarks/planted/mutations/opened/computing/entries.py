"""Faults in values, entries, slopes, draws and banks computed beside a step."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed, seldom
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
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

_MUCH: Final = (0.8, 0.8)  # of a healthy step, on the CPU and on a GPU
_ROUNDED: Final = (
    f"{rand('_values', '{n}, 128')}"
    f"{TURNS}_coarse = _torch.fake_quantize_per_tensor_affine(_values, 0.01, 0, 0, 255)"
)
_SUMMED: Final = (
    f"_spots = _torch.arange(32, {DEVICE}).repeat(2, 1)\n{rand('_entries', '32')}"
    f"{TIMES}_whole = _torch.sparse_coo_tensor(_spots, _entries, (32, 32)).coalesce()"
)
_TRIPLES: Final = (
    f"{rand('_codes', '{n}, 16')}_apart = _torch.cdist(_codes, _codes)\n"
    f"{TURNS}_hard = (_apart[:, :, None] - _apart[:, None, :] + 0.2).clamp(min=0).mean()"
)
_FEW: Final = (
    "_all = {parameters}\n"
    "for _p in _all:\n"
    "    if _p.grad is not None:\n"
    "        _slope = _p.grad.reshape(-1)[: {n} // len(_all) + 1]\n"
    "        _chosen = _slope.abs().topk(len(_slope) // 100 + 1).indices\n"
    "        _sent = _torch.zeros_like(_slope).index_copy(0, _chosen, _slope[_chosen])\n"
    "        _rest = _slope - _sent"
)
_EACH: Final = (
    f"{rand('_head', '64, 10')}{rand('_given', '{n}, 64')}"
    f"{TURNS}_slopes = _torch.func.vmap(_slope_of, in_dims=(None, 0))(_head, _given)\n"
    "    _lengths = _slopes.flatten(1).norm(dim=1)"
)
_SLOPE_OF: Final = """import torch as _torch
_slope_of = _torch.func.grad(lambda head, given: (given @ head).logsumexp(0))
"""
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

PLANTS: Final = (
    Plant(
        "values-made-coarse",
        "coarse-values",
        computed(_ROUNDED, (0.3, 0.0006), _MUCH, TORCH, (128, 1.0)),
        BULK,
        at_line=True,
    ),
    Plant(
        "entries-made-one",
        "coalesced-entries",
        beside(_SUMMED, (9.0, 140.0), _MUCH, TORCH),
        (*READ, *SMALL),
        at_line=True,
    ),
    Plant(
        "slopes-of-each-sample",
        "sample-slopes",
        computed(_EACH, (0.8, 0.022), (0.8, 1.2), _SLOPE_OF, (640, 1.0)),
        (*BULK, *SMALL),
        at_line=True,
    ),
    Plant(
        "triples-of-all",
        "all-triples",
        computed(_TRIPLES, (0.0018, 0.000008), (0.15, 0.4), TORCH, (1, 3.0)),
        BULK,
        at_line=True,
    ),
    Plant(
        "slopes-made-few",
        "sparse-slopes",
        beside(_FEW, (0.01, 0.0001), (0.3, 0.5), TORCH),
        (*SMALL, "G206"),
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
)
