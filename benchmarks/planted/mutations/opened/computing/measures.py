"""Faults in what a step measures and compares of tensors."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
    READ,
    SENT,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import CUDA, Plant

_SOME: Final = (0.4, 0.4)  # of a healthy step, on the CPU and on a GPU
_MUCH: Final = (0.6, 0.6)
_MOST: Final = (0.9, 0.9)
_CALLS: Final = (0.6, 1.5)  # on a GPU of what the host launches, while the GPU is busy
_HEAVY: Final = ("G501", "G502", "G504", "G517", *BULK)
_LOOPS: Final = (*SMALL, "G204", "G206", "G207", "G216")
_NN: Final = "_torch.nn.functional"
_EACH: Final = "for _ in range(max(1, {n} // len({parameters}))):\n    "

_ROLLED: Final = f"{rand('_row', '{n}, 256')}{TURNS}_steep = (_row.roll(1, 1) - _row).abs()"
_SURE: Final = (
    f"{rand('_logits', '{n}, 1000')}{TURNS}_sure = _torch.softmax(_logits, 1).log().mean(1)"
)
_CHAINED: Final = f"{rand('_odds', '{n}, 256')}{TURNS}_chained = _odds.cumprod(1)"
_FREQUENT: Final = f"{rand('_seen', '{n}, 64, 64')}{TURNS}_waves = _torch.fft.rfft2(_seen).abs()"
_DENOISED: Final = (
    f"{rand('_noisy', '{n}, 1, 16, 16')}"
    f"{TURNS}_clean = {_NN}.unfold(_noisy, 3, padding=1).median(1).values"
)
_KTH: Final = f"{rand('_spread', '{n}, 256')}{TURNS}_edge = _spread.kthvalue(200, 1).values"
_LIKE: Final = (
    f"{rand('_left', '{n}, 1, 32, 32')}{rand('_right', '{n}, 1, 32, 32')}"
    f"{TURNS}_means = [{_NN}.avg_pool2d(_side, 7, 1) for _side in (_left, _right)]\n"
    f"    _common = {_NN}.avg_pool2d(_left * _right, 7, 1) - _means[0] * _means[1]"
)
_GRAMS: Final = (
    f"{rand('_style', '{n}, 64, 256')}{TURNS}_gram = _torch.bmm(_style, _style.transpose(1, 2))"
)
_NEAREST: Final = (
    f"{rand('_cloud', '{n}, 64, 3')}{TURNS}_near = _torch.cdist(_cloud, _cloud.flip(0)).amin(2)"
)
_TURNED: Final = (
    f"{rand('_maps', '{n}, 32, 64')}{TURNS}_turned = _maps.transpose(1, 2).contiguous()"
)
_BYTES: Final = (
    f"{rand('_active', '{n}')}{TURNS}_small = (_active * 255).round().clamp(0, 255)"
    ".to(_torch.uint8)\n    _active = _small.float() / 255"
)
_BIASED: Final = (
    f"{rand('_heads', '{n}, 64, 32')}_bias = _torch.arange(64, {DEVICE}).float()\n"
    f"_bias = -(_bias[:, None] - _bias[None]).abs()\n"
    f"{TURNS}_looks = _torch.softmax(_heads @ _heads.transpose(1, 2) + _bias, -1) @ _heads"
)
_DOUBLES: Final = (
    f"{rand('_figures', '{n}')}{TURNS}_width = _figures.double().sub(0.5).pow(2).sqrt().mean()"
)
_SINGLY: Final = f"{rand('_rows', '64, 32')}{TIMES}_rows[_at % 64] /= _rows[_at % 64].norm() + 1e-6"
_CHOSEN: Final = (
    f"{rand('_signal', '64')}{TIMES}_signal = _torch.where("
    "_signal > 0.5, 0.9 * _signal, _signal + 0.01)"
)
_STACKED: Final = f"{rand('_pool', '64')}{TIMES}_picked = _torch.stack([_v for _v in _pool[:8]])"
_PICKED: Final = (
    f"_kinds = _torch.arange(256, {DEVICE}) % 10\n{TIMES}_rows = (_kinds == _at % 10).nonzero()"
)
_REPEATED: Final = (
    f"{rand('_items', '32, 8')}_times = _torch.arange(32, {DEVICE}) % 4\n"
    f"{TIMES}_long = _items.repeat_interleave(_times, 0)"
)
_EXTREMES: Final = (
    f"{rand('_range', '64, 64')}{TIMES}_low, _high = float(_range.min()), float(_range.max())"
)
_ORDERED: Final = (
    f"{rand('_store', '256, 16')}_order = _numpy.arange(256)[::-1].copy()\n"
    f"{TIMES}_sorted = _store[_torch.from_numpy(_order).to(_store.device)]"
)
_SPREADS: Final = (
    f"{_EACH}_spreads = [_p.grad.var() for _p in {{parameters}} if _p.grad is not None]"
)
_DECAYED: Final = (
    f"{_EACH}with _torch.no_grad():\n        for _p in {{parameters}}:\n"
    "            _p.sub_(_p, alpha=1e-9)"
)
_CENTRED: Final = (
    f"{_EACH}_middles = [\n        _p.grad - _p.grad.mean() for _p in {{parameters}} "
    "if _p.grad is not None\n    ]"
)
_CLONED: Final = f"{_EACH}_before = [_p.detach().clone() for _p in {{parameters}}]"
_NAMED: Final = (
    f"{rand('_small', '8, 16')}{rand('_square', '16, 16')}"
    f"{TIMES}_form = _torch.einsum('bi,ij,bj->b', _small, _square, _small)"
)
_TANGENTS: Final = (
    f"{rand('_point', '64')}{TIMES}_value, _slope = _torch.func.jvp("
    "lambda _x: _x.sin().square(), (_point,), (_point,))"
)
_CURVED: Final = (
    f"{rand('_spot', '32')}{TIMES}_bend = _torch.autograd.functional.hvp(\n"
    "        lambda _x: _x.pow(3).sum(), _spot, _spot\n    )[1]"
)
_SUMS: Final = f"{rand('_batch', '64, 64')}{TIMES}_total = _batch[_at % 64].sum().cpu()"
_LISTED: Final = (
    f"{rand('_heads', '16, 32')}{TIMES}_joined = _torch.cat(\n"
    "        [_part.unsqueeze(0) for _part in _heads.split(1)], 1\n    )"
)
_SIZED: Final = (
    f"{rand('_ids', '512')}_ids = (_ids * 50).long()\n{TIMES}_wide = {_NN}.one_hot(_ids)"
)

_BULKS: Final = (
    ("steepness-by-rolling", "rolled-rows", _ROLLED, (4.0, 0.003), _MUCH, 256, 1.0, BULK),
    ("sureness-in-full", "full-sureness", _SURE, (11.0, 0.009), _MUCH, 1000, 1.0, BULK),
    ("odds-in-chains", "chained-odds", _CHAINED, (3.0, 0.003), _MUCH, 256, 1.0, BULK),
    ("waves-of-pictures", "picture-waves", _FREQUENT, (30.0, 0.045), _MUCH, 8192, 1.0, _HEAVY),
    ("noise-by-medians", "patch-medians", _DENOISED, (60.0, 0.4), _MUCH, 4608, 1.0, BULK),
    ("edges-of-the-spread", "kth-values", _KTH, (5.0, 0.005), _SOME, 256, 1.0, BULK),
    ("likeness-of-structure", "structure-scores", _LIKE, (80.0, 0.03), _MUCH, 4096, 1.0, BULK),
    ("styles-in-tables", "style-tables", _GRAMS, (100.0, 0.06), _MUCH, 16384, 1.0, _HEAVY),
    ("nearest-in-clouds", "cloud-distances", _NEAREST, (10.0, 0.03), _MUCH, 4096, 1.0, BULK),
    ("maps-turned-around", "turned-maps", _TURNED, (18.0, 0.008), _MUCH, 2048, 1.0, BULK),
    ("activity-in-bytes", "byte-activity", _BYTES, (0.022, 1.8e-05), _MUCH, 1, 1.0, BULK),
    (
        *("looks-with-bias", "biased-looks", _BIASED, (20.0, 0.06), _MUCH, 4096, 1.0),
        ("G505", *_HEAVY),
    ),
    (
        "widths-in-doubles",
        "double-widths",
        _DOUBLES,
        (0.018, 3e-05),
        _MOST,
        1,
        1.0,
        ("G503", *BULK),
    ),
)
_SMALLS: Final = (
    ("rows-measured-singly", "singly-scaled", _SINGLY, (10.0, 30.0), _CALLS, SMALL),
    ("signals-by-cases", "case-signals", _CHOSEN, (10.0, 22.0), _CALLS, SMALL),
    ("values-stacked-singly", "stacked-values", _STACKED, (12.0, 25.0), _CALLS, SMALL),
    ("kinds-picked-out", "picked-kinds", _PICKED, (3.6, 40.0), _MUCH, READ),
    ("items-by-counts", "repeated-items", _REPEATED, (6.0, 60.0), _MUCH, READ),
    ("extremes-followed", "followed-extremes", _EXTREMES, (4.2, 50.0), _MUCH, READ),
    ("order-from-the-host", "sent-orders", _ORDERED, (9.0, 35.0), _MUCH, (*READ, *SENT)),
    ("spreads-of-slopes", "slope-spreads", _SPREADS, (4.6, 10.0), _CALLS, _LOOPS),
    ("decay-by-hand", "hand-decays", _DECAYED, (2.3, 6.0), _CALLS, _LOOPS),
    ("slopes-centred", "centred-slopes", _CENTRED, (4.5, 13.0), _CALLS, _LOOPS),
    ("weights-cloned", "cloned-weights", _CLONED, (2.0, 7.0), _CALLS, _LOOPS),
    ("forms-by-name", "named-forms", _NAMED, (17.0, 50.0), _CALLS, SMALL),
    ("tangents-forward", "forward-tangents", _TANGENTS, (90.0, 120.0), _CALLS, SMALL),
    ("bends-probed", "probed-bends", _CURVED, (105.0, 200.0), _CALLS, SMALL),
    ("parts-joined-again", "rejoined-parts", _LISTED, (33.0, 45.0), _CALLS, SMALL),
    ("kinds-spread-unsized", "unsized-kinds", _SIZED, (10.0, 60.0), _MUCH, READ),
)
_ON_GPU: Final = (("sums-fetched", "fetched-sums", _SUMS, 30.0, READ),)
_TOP: Final = f"import numpy as _numpy\n{TORCH}"
PLANTS: Final = (
    *(
        Plant(name, family, computed(text, unit, share, TORCH, (width, power)), codes, at_line=True)
        for name, family, text, unit, share, width, power, codes in _BULKS
    ),
    *(
        Plant(name, family, beside(text, unit, share, _TOP), codes, at_line=True)
        for name, family, text, unit, share, codes in _SMALLS
    ),
    *(
        Plant(name, family, beside(text, unit, 0.5, TORCH), codes, devices=CUDA, at_line=True)
        for name, family, text, unit, codes in _ON_GPU
    ),
)
