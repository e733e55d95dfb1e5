"""Faults in what a step computes with tensors, much or in many pieces."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import (
    LITTLE,
    MOST,
    MUCH,
    SOME,
    beside,
    computed,
    on_output,
)
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    CHORE,
    DEVICE,
    READ,
    SENT,
    SMALL,
    TORCH,
    TURNS,
    ones,
)
from benchmarks.planted.mutations.parts import top_where
from benchmarks.planted.mutations.plant import CUDA, Plant

_PARTED: Final = f"_wide = _torch.rand({{n}}, {DEVICE})\n{TURNS}_parts = _wide.quantile(0.9)"
_BINNED: Final = (
    f"_edges = _torch.linspace(0, 1, 256, {DEVICE})\n"
    f"{ones('_spread', '{n}')}{TURNS}_bins = _torch.bucketize(_spread, _edges)"
)
_SMOOTHED: Final = (
    f"{ones('_signal', '1, 1, {n} + 101')}"
    f"{TURNS}_smooth = _torch.nn.functional.avg_pool1d(_signal, 101, 1)"
)
_BROADCAST: Final = (
    f"{ones('_left', '{n}, 64, 1')}{ones('_right', '1, 64, 64')}"
    f"{TURNS}_product = (_left * _right).sum(1)"
)
_TURNED: Final = (
    f"{ones('_pairs', '{n}, 2')}"
    f"{TURNS}_turned = _torch.view_as_complex(_pairs) * 1j\n"
    "    _angle = _turned.angle()"
)
_CHANCES: Final = (
    f"{ones('_scores', '{n}')}"
    f"{TURNS}_chosen = (_scores - (-_torch.rand_like(_scores).log()).log()).argmax()"
)
_TRIANGLE: Final = f"{TURNS}_seen = _torch.ones({{n}}, {{n}}, {DEVICE}).tril().bool()"
_QUEUED: Final = (
    f"{ones('_fresh', '8, 64')}"
    f"if not _queue:\n    _queue.append(_torch.zeros({{n}}, 64, {DEVICE}))\n"
    f"{TURNS}_queue[0] = _torch.cat([_fresh, _queue[0][:-8]])"
)
_RATIOS: Final = (
    "for _ in range(max(1, {n} // len({parameters}))):\n"
    "    _ratios = [\n"
    "        (_p.grad.std() / (_p.detach().std() + 1e-9)).log10().item()\n"
    "        for _p in {parameters}\n"
    "        if _p.grad is not None and _p.numel() > 1\n"
    "    ]"
)
_COMPARED: Final = (
    f"{ones('_here', '1000')}{ones('_there', '1000')}"
    "for _ in range({n}):\n    _same = _torch.equal(_here, _there)"
)
_MASKED: Final = (
    f"_row = _torch.arange(256, {DEVICE})\n"
    "for _at in range({n}):\n    _kept = _row[_row > _at % 250]"
)
_MULTIPLIED: Final = (
    f"_counts = _torch.arange(64, {DEVICE}) % 5\n"
    "for _ in range({n}):\n    _rows = _counts.repeat_interleave(_counts)"
)
_EXACT: Final = (
    f"_factor = _torch.rand(256, 256, {DEVICE})\n"
    f"_rough = _torch.rand({{n}}, 256, {DEVICE})\n"
    f"{TURNS}_exact = _rough.double() @ _factor.double()"
)
_PICTURES: Final = f"{TORCH}_raw = _torch.zeros({{n}}, 3, 32, 32, dtype=_torch.uint8)\n"
_FLOATED: Final = "_floats = _raw.float().div(255).to({parameters}[0].device)"
_TRACED: Final = (
    f"{ones('_shown', '4')}"
    "for _ in range({n}):\n"
    "    _traced = _torch.jit.trace(lambda x: x * 2 + 1, (_shown,), check_trace=False)"
)
_JOINED: Final = (
    f"{ones('_piece', '1, 64')}"
    "for _ in range({n}):\n"
    "    _whole = _piece\n"
    "    for _ in range(32):\n"
    "        _whole = _torch.cat([_whole, _piece])"
)
_ZEROED: Final = (
    "for _ in range(max(1, {n} // len({parameters}))):\n"
    "    for _p in {parameters}:\n"
    "        if _p.grad is not None:\n"
    "            _p.grad.zero_()"
)
_GROUP: Final = """import os as _os
import tempfile as _tempfile
import torch as _torch
import torch.distributed as _ranks
_meeting = f"file://{_os.path.join(_tempfile.mkdtemp(), 'meeting')}"
"""
_MEAN: Final = """if not _ranks.is_initialized():
    _ranks.init_process_group("gloo", init_method=_meeting, rank=0, world_size=1)
_mean = _torch.zeros(16)
for _ in range({n}):
    _ranks.all_reduce(_mean)"""
_LINKS: Final = (
    f"_ends = _torch.randint(0, 128, (2, 512), {DEVICE})\n"
    "for _ in range({n}):\n"
    "    _dense = _torch.sparse_coo_tensor(_ends, _ends[0].float(), (128, 128)).to_dense()"
)
_NOISE: Final = f"{TURNS}_noise = _torch.randn({{n}}).to({{parameters}}[0].device)"
_FETCHED: Final = (
    f"{ones('_table', '64, 32')}for _at in range({{n}}):\n    _fetched = _table[_at % 64].cpu()"
)
_POLLED: Final = (
    "if not _landing:\n"
    "    _landing.append(_torch.empty({n}, pin_memory=True))\n"
    f"_leaving = _torch.ones({{n}}, {DEVICE})\n"
    f"{TURNS}_landing[0].copy_(_leaving, non_blocking=True)\n"
    "_landed = _torch.cuda.Event()\n"
    "_landed.record()\n"
    "while not _landed.query():\n"
    "    pass"
)
_ODD: Final = (
    f"_side = _torch.ones(1021, 1021, dtype=_torch.bfloat16, {DEVICE})\n"
    f"_odd = _torch.ones({{n}}, 1021, dtype=_torch.bfloat16, {DEVICE})\n"
    f"{TURNS}_uneven = _odd @ _side"
)
_UNCACHED: Final = """import os as _os
_os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
"""
_ROUNDED: Final = f"{TORCH}_torch.backends.cudnn.allow_tf32 = False\n"
_CONVOLVING: Final = (
    *("Conv2d", "DnCNN", "DenseNet", "net_sphere", "R3D_model", "U_Net", "CRNN", "PixelCNN"),
    *("ESPCN", "RealNVP", "TransformerNet", "SmallAlexNet"),
)
_SOFTENED: Final = (
    "for _warm in range(1, {n} + 1):\n"
    "    _soft = ({output}.detach().flatten()[:512] / _warm).softmax(0)"
)
_BEST: Final = (
    "_listed = {output}.detach().flatten()[:512]\n"
    "for _few in range(1, {n} + 1):\n"
    "    _best = _listed.topk(_few % 5 % len(_listed) + 1).indices"
)
_COPIED: Final = (
    "for _ in range({n}):\n    _copied = {output}.detach().clone().contiguous().float()"
)


_BULKS: Final = (
    ("parts-of-a-spread", "spread-parts", _PARTED, (0.11, 0.0015), SOME, 2, 1.0, BULK),
    ("values-in-bins", "bins-of-values", _BINNED, (0.015, 1.2e-5), MUCH, 1, 1.0, BULK),
    ("signal-smoothed-long", "long-smoothing", _SMOOTHED, (0.05, 1e-4), SOME, 1, 1.0, BULK),
    ("product-by-spreading", "spread-products", _BROADCAST, (8.0, 0.012), MUCH, 4096, 1.0, BULK),
    ("turned-by-complex", "complex-turns", _TURNED, (0.011, 1.5e-5), MOST, 2, 1.0, BULK),
    ("chances-by-noise", "noisy-chances", _CHANCES, (0.01, 1.6e-5), LITTLE, 1, 1.0, BULK),
    ("triangle-made-again", "triangles", _TRIANGLE, (0.0025, 5e-6), MUCH, 1, 2.0, BULK),
    ("queue-moved-on", "moved-queues", _QUEUED, (0.06, 0.0002), SOME, 64, 1.0, (*BULK, "G515")),
    (
        "exact-in-between",
        "exact-products",
        _EXACT,
        (4.2, 0.004),
        MUCH,
        256,
        1.0,
        ("G503", "G508", *BULK),
    ),
)
_SMALLS: Final = (
    ("ratios-of-updates", "update-ratios", _RATIOS, (28.0, 75.0), MUCH, (*READ, "G506", "G702")),
    ("tensors-held-equal", "equal-tensors", _COMPARED, (2.0, 28.0), SOME, READ),
    ("rows-by-a-mask", "masked-rows", _MASKED, (9.0, 38.0), MUCH, (*READ, "G506")),
    ("rows-multiplied", "multiplied-rows", _MULTIPLIED, (9.0, 60.0), SOME, (*READ, "G506")),
    ("function-traced-again", "traced-functions", _TRACED, (180.0, 500.0), MUCH, SMALL),
    ("rows-joined-in-turn", "joined-rows", _JOINED, (52.0, 170.0), MOST, (*SMALL, "G515")),
    ("slopes-zeroed-singly", "zeroed-slopes", _ZEROED, (0.8, 4.5), SOME, (*SMALL, "G213", "G216")),
    ("links-made-dense", "dense-links", _LINKS, (35.0, 75.0), LITTLE, (*SMALL, "G307")),
)
_OUTPUTS: Final = (
    ("warmth-tried", "tried-warmth", _SOFTENED, (13.0, 22.0), MUCH, SMALL),
    ("best-few-counted", "counted-best", _BEST, (5.0, 20.0), SOME, SMALL),
    ("answers-copied", "copied-answers", _COPIED, (4.0, 10.0), MOST, (*SMALL, "G508")),
)
_ON_GPU: Final = (
    ("noise-from-the-host", "host-noise", _NOISE, 0.007, MUCH, SENT),
    ("rows-fetched-singly", "fetched-rows", _FETCHED, 16.0, SOME, READ),
    ("event-asked-again", "asked-events", _POLLED, 0.00018, MUCH, (*READ, "G306", "G302")),
    ("sides-that-are-odd", "odd-sides", _ODD, 0.012, MOST, ("G509", *BULK)),
)
PLANTS: Final = (
    *(
        Plant(
            name,
            family,
            computed(text, unit, share, f"{TORCH}_queue = []\n", (width, power)),
            codes,
            at_line=True,
        )
        for name, family, text, unit, share, width, power, codes in _BULKS
    ),
    *(
        Plant(
            name,
            family,
            beside(text, unit, share, TORCH),
            codes,
            ("set-to-none",) * ("G213" in codes),
            at_line=True,
        )
        for name, family, text, unit, share, codes in _SMALLS
    ),
    *(
        Plant(name, family, on_output(text, unit, share), codes, at_line=True)
        for name, family, text, unit, share, codes in _OUTPUTS
    ),
    *(
        Plant(
            name,
            family,
            computed(text, unit, share, f"{TORCH}_landing = []\n"),
            codes,
            devices=CUDA,
            at_line=True,
        )
        for name, family, text, unit, share, codes in _ON_GPU
    ),
    Plant(
        "pictures-floated-on-host",
        "floated-pictures",
        beside(_FLOATED, (6.0, 9.0), MUCH, _PICTURES),
        (*SENT, "G506"),
        at_line=True,
    ),
    Plant(
        "mean-over-nobody",
        "lonely-means",
        beside(_MEAN, 22.0, SOME, _GROUP),
        ("G603", "G607", "G202", *CHORE),
        at_line=True,
    ),
    Plant(
        "memory-asked-each-time",
        "uncached-memory",
        top_where(_UNCACHED, ()),
        ("G401", "G402", "G403", "G201", "G202"),
        ("allocator", "debug-off"),
        "any",
        CUDA,
        at_line=True,
    ),
    Plant(
        "convolutions-unrounded",
        "unrounded-convolutions",
        top_where(_ROUNDED, _CONVOLVING),
        ("G501", "G502", "G507", "G504"),
        ("tf32", "bf16", "fp16"),
        "any",
        CUDA,
        at_line=True,
    ),
)
