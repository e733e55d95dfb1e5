"""Faults in what a step computes of rows, masks and sequences."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    DEVICE,
    READ,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import CUDA, Plant

_SOME: Final = (0.3, 0.4)  # of a healthy step, on the CPU and on a GPU
_MUCH: Final = (0.5, 0.6)
_MOST: Final = (0.8, 0.9)
_CALLS: Final = (0.5, 1.3)  # on a GPU of what the host launches, while the GPU is busy
_HEAVY: Final = ("G501", "G502", "G504", "G517", *BULK)
_NN: Final = "_torch.nn.functional"


_SERIES: Final = (
    f"{rand('_raw', '{n}, 128')}{TURNS}_term = _sum = _torch.ones_like(_raw)\n"
    "    for _power in range(1, 9):\n"
    "        _term = _term * _raw / _power\n"
    "        _sum = _sum + _term"
)
_COLOURS: Final = (
    f"{rand('_pictures', '{n}, 3, 32, 32')}{rand('_mixing', '3, 3')}"
    f"{TURNS}_mixed = _torch.einsum('ij,njhw->nihw', _mixing, _pictures)"
)
_EDGES: Final = (
    f"{rand('_grey', '{n}, 1, 32, 32')}{rand('_kernels', '2, 1, 3, 3')}"
    f"{TURNS}_slopes = {_NN}.conv2d(_grey, _kernels, padding=1).square().sum(1).sqrt()"
)
_SEGMENTS: Final = (
    f"{rand('_levels', '{n}')}_rooms = _torch.arange({{n}}, {DEVICE}) % 1000\n"
    f"{TURNS}_peaks = _torch.zeros(1000, {DEVICE}).scatter_reduce(0, _rooms, _levels, 'amax')"
)
_KRON: Final = (
    f"{rand('_outer', '{n}, {n}')}{rand('_inner', '8, 8')}"
    f"{TURNS}_table = _torch.kron(_outer, _inner)"
)
_BAGS: Final = (
    f"_words = _torch.arange(32 * {{n}}, {DEVICE}).view(-1, 32) * 7919 % 50000\n"
    f"{rand('_meanings', '50000, 64')}{TURNS}_bags = {_NN}.embedding_bag(_words, _meanings)"
)
_GROWN: Final = (
    f"{rand('_shapes', '{n}, 1, 64, 64')}{TURNS}_grown = {_NN}.max_pool2d(_shapes, 7, 1, 3)"
)
_EVENED: Final = (
    f"{rand('_maps', '{n}, 32, 16, 16')}{TURNS}_evened = {_NN}.local_response_norm(_maps, 5)"
)
_DOUBLES: Final = (
    f"{TURNS}_noise = _torch.randn({{n}}, dtype=_torch.float64, {DEVICE}).exp().log1p()"
)
_ALIGNED: Final = (
    f"{rand('_signs', '60, 16, 40')}_marks = _torch.arange(16 * 12, {DEVICE}).view(16, 12) % 39\n"
    f"{TIMES}_aligned = {_NN}.ctc_loss(\n"
    "        _signs.log_softmax(2), _marks + 1, (60,) * 16, (12,) * 16\n    )"
)
_RECURRED: Final = (
    f"if not _begun:\n    _begun.append(_torch.nn.LSTM(64, 64).to({{parameters}}[0].device))\n"
    f"{rand('_past', '50, 8, 64')}{TIMES}with _torch.no_grad():\n"
    "        _summary = _begun[0](_past)[1]"
)
_LENGTHS: Final = f"_lengths = _torch.arange(1, 17, {DEVICE})\n"
_SPLIT: Final = (
    f"{rand('_rows', '136, 16')}{_LENGTHS}{TIMES}_parts = _rows.split(_lengths.tolist())"
)
_PACKED: Final = (
    f"{rand('_padded', '16, 16, 8')}{_LENGTHS}{TIMES}"
    "_packed = _torch.nn.utils.rnn.pack_padded_sequence(\n"
    "        _padded, _lengths.cpu(), enforce_sorted=False\n    )"
)
_BINS: Final = (
    f"_kinds = _torch.arange(256, {DEVICE}) % 10\n{TIMES}_counts = _torch.bincount(_kinds)"
)
_STAGES: Final = (
    f"{rand('_rest', '64, 16')}{rand('_codes', '32, 16')}{TIMES}"
    "_rest = _rest - _codes[_torch.cdist(_rest, _codes).argmin(1)]"
)
_WANDERED: Final = (
    f"{rand('_spots', '64, 16')}{TIMES}_spots = 0.99 * _spots + 0.1 * _torch.randn_like(_spots)"
)
_BEAMS: Final = (
    f"{rand('_scores', '8, 500')}{TIMES}_best, _which = _scores.topk(4)\n"
    "    _scores = _scores - 0.001 * _best[:, :1]"
)
_SIGNS: Final = (
    "for _ in range(max(1, {n} // len({parameters}))):\n"
    "    _rising = [(_p.grad > 0).sum() for _p in {parameters} if _p.grad is not None]"
)
_CUT: Final = (
    f"{rand('_views', '16, 3, 32, 32')}{TIMES}"
    "_views[_at % 16, :, _at % 24 : _at % 24 + 8, _at % 20 : _at % 20 + 12] = 0"
)
_STORED: Final = (
    f"{rand('_fresh', '32, 64')}{rand('_store', '512, 64')}"
    f"{TIMES}_store[_at % 512].copy_(_fresh[_at % 32])"
)
_MASKS: Final = (
    f"_mask = _torch.zeros(64, 50, dtype=_torch.bool, {DEVICE})\n"
    f"{TIMES}_mask[_at % 64, : _at % 50] = True"
)
_CASTS: Final = (
    f"{rand('_small', '32, 32')}_kind = _small.device.type\n"
    f"{TIMES}with _torch.autocast(_kind, dtype=_torch.bfloat16):\n"
    "        _product = _small @ _small"
)
_PADDED: Final = (
    f"{rand('_texts', '32, 16')}{TIMES}_even = _torch.nn.utils.rnn.pad_sequence(\n"
    "        [_texts[: 1 + _length] for _length in range(16)]\n    )"
)
_FORKED: Final = f"{TIMES}with _torch.random.fork_rng():\n        pass"
_WAITED: Final = (
    "if not _begun:\n    _begun.append(_torch.cuda.Stream())\n"
    f"{rand('_ball', '64')}_now = _torch.cuda.current_stream()\n"
    f"{TIMES}_begun[0].wait_stream(_now)\n"
    "    with _torch.cuda.stream(_begun[0]):\n        _ball.mul_(1.0)\n"
    "    _now.wait_stream(_begun[0])"
)
_ASKED: Final = (
    f"{TIMES}_kind = _torch.cuda.get_device_properties(0).name, "
    "_torch.cuda.get_device_capability(0)"
)

_BULKS: Final = (
    ("powers-term-by-term", "term-series", _SERIES, (5.0, 0.015), _MUCH, 128, 1.0, BULK),
    ("colours-mixed", "mixed-colours", _COLOURS, (25.0, 0.03), _MUCH, 3072, 1.0, _HEAVY),
    ("edges-looked-for", "edge-maps", _EDGES, (28.0, 0.03), _MUCH, 3072, 1.0, _HEAVY),
    ("peaks-of-segments", "segment-peaks", _SEGMENTS, (0.013, 2e-4), _MUCH, 1, 1.0, BULK),
    ("tables-by-kron", "kron-tables", _KRON, (0.05, 3e-4), _SOME, 64, 2.0, BULK),
    ("bags-of-words", "word-bags", _BAGS, (2.7, 0.006), _MUCH, 32, 1.0, BULK),
    ("shapes-grown", "grown-shapes", _GROWN, (400.0, 0.08), _MUCH, 4096, 1.0, BULK),
    ("maps-evened", "evened-maps", _EVENED, (200.0, 0.12), _SOME, 8192, 1.0, BULK),
    ("noise-in-doubles", "double-noise", _DOUBLES, (0.03, 3e-5), _MUCH, 1, 1.0, ("G503", *BULK)),
)
_SMALLS: Final = (
    ("texts-aligned-for-show", "shown-alignments", _ALIGNED, (800.0, 900.0), _MUCH, _HEAVY),
    ("past-summed-up-for-show", "shown-summaries", _RECURRED, (650.0, 600.0), _MUCH, _HEAVY),
    ("split-by-lengths", "length-splits", _SPLIT, (35.0, 45.0), _SOME, READ),
    ("packed-by-lengths", "length-packs", _PACKED, (60.0, 130.0), _MUCH, READ),
    ("kinds-counted", "kind-counts", _BINS, (5.0, 45.0), _MUCH, READ),
    ("codes-in-stages", "staged-codes", _STAGES, (60.0, 45.0), _CALLS, SMALL),
    ("spots-that-wander", "wandering-spots", _WANDERED, (24.0, 22.0), _CALLS, SMALL),
    ("beams-step-by-step", "stepped-beams", _BEAMS, (28.0, 35.0), _CALLS, SMALL),
    ("slopes-that-rise", "rising-slopes", _SIGNS, (10.0, 16.0), _CALLS, (*SMALL, "G206")),
    ("holes-cut-singly", "cut-holes", _CUT, (10.0, 14.0), _CALLS, SMALL),
    ("rows-stored-singly", "stored-rows", _STORED, (4.0, 14.0), _CALLS, SMALL),
    ("masks-by-lengths", "length-masks", _MASKS, (6.5, 12.0), _CALLS, SMALL),
    ("casts-entered-again", "entered-casts", _CASTS, (55.0, 45.0), _CALLS, ("G508", *SMALL)),
    ("texts-padded-again", "step-padding", _PADDED, (100.0, 250.0), _CALLS, (*SMALL, "G510")),
    ("chances-forked", "forked-chances", _FORKED, (9.0, 90.0), _CALLS, READ),
)
_ON_GPU: Final = (
    ("streams-by-turns", "turned-streams", _WAITED, 30.0, (*READ, "G306")),
    ("device-described-again", "described-devices", _ASKED, 3.0, SMALL),
)
PLANTS: Final = (
    *(
        Plant(name, family, computed(text, unit, share, TORCH, (width, power)), codes, at_line=True)
        for name, family, text, unit, share, width, power, codes in _BULKS
    ),
    *(
        Plant(name, family, beside(text, unit, share, f"{TORCH}_begun = []\n"), codes, at_line=True)
        for name, family, text, unit, share, codes in _SMALLS
    ),
    *(
        Plant(
            name,
            family,
            beside(text, unit, _CALLS, f"{TORCH}_begun = []\n"),
            codes,
            devices=CUDA,
            at_line=True,
        )
        for name, family, text, unit, codes in _ON_GPU
    ),
)
