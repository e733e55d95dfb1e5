"""Faults in what a step sums, counts and looks up of tensors."""

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
    ones,
    rand,
)
from benchmarks.planted.mutations.plant import CUDA, Plant

_SOME: Final = (0.5, 0.5)  # of a healthy step, on the CPU and on a GPU
_MUCH: Final = (0.7, 0.7)
_MOST: Final = (1.0, 1.0)
_CALLS: Final = (0.7, 1.7)  # on a GPU of what the host launches, while the GPU is busy
_HEAVY: Final = ("G501", "G502", "G504", "G517", *BULK)
_LOOPS: Final = (*SMALL, "G204", "G206", "G207", "G216")
_NN: Final = "_torch.nn.functional"
_EACH: Final = "for _ in range(max(1, {n} // len({parameters}))):\n    "

_GAMMAS: Final = f"{rand('_places', '{n}, 64')}{TURNS}_logs = _torch.lgamma(_places + 1)"
_LOGS: Final = f"{rand('_odds', '{n}, 128')}{TURNS}_sums = _torch.logcumsumexp(_odds, 1)"
_GRIDS: Final = (
    f"{rand('_views', '{n}, 1, 32, 32')}{rand('_grid', '{n}, 32, 32, 2')}_grid = 2 * _grid - 1\n"
    f"{TURNS}_seen = {_NN}.grid_sample(_views, _grid, align_corners=False)"
)
_COUNTS: Final = f"{rand('_values', '{n}')}{TURNS}_counts = _torch.histc(_values, 64)"
_MAXIMA: Final = (
    f"{rand('_values', '{n}, 64')}_kinds = (16 * _values).long()\n"
    f"{TURNS}_most = _values.new_zeros(len(_values), 16)\n"
    "    _most.scatter_reduce_(1, _kinds, _values, 'amax')"
)
_NORMED: Final = f"{rand('_maps', '{n}, 16, 64')}{TURNS}_calm = {_NN}.local_response_norm(_maps, 5)"
_PIXELS: Final = (
    f"{rand('_deep', '{n}, 16, 8, 8')}"
    f"{TURNS}_flat = {_NN}.pixel_unshuffle({_NN}.pixel_shuffle(_deep, 4), 4)"
)
_BUCKETS: Final = (
    f"{rand('_values', '{n}')}_edges = _torch.linspace(0, 1, 256, {DEVICE})\n"
    f"{TURNS}_spots = _torch.bucketize(_values, _edges)"
)
_UNPOOLED: Final = (
    f"{rand('_maps', '{n}, 8, 16, 16')}"
    f"{TURNS}_tops, _spots = {_NN}.max_pool2d(_maps, 2, return_indices=True)\n"
    f"    _back = {_NN}.max_unpool2d(_tops, _spots, 2)"
)
_FEW: Final = f"{rand('_words', '{n}, 2048')}{TURNS}_few = _torch.topk(_words, 40, 1).values"
_GUMBEL: Final = (
    f"{rand('_words', '{n}, 512')}{TURNS}_drawn = {_NN}.gumbel_softmax(_words, hard=True)"
)
_COSINE: Final = (
    f"{rand('_asks', '{n}, 64, 32')}{TURNS}_unit = {_NN}.normalize(_asks, dim=2)\n"
    "    _looks = _torch.softmax(10 * _unit @ _unit.transpose(1, 2), 2) @ _asks"
)
_SOLVED: Final = (
    f"{rand('_sides', '{n}, 16, 16')}_lower = _sides.tril() + 4 * _torch.eye(16, {DEVICE})\n"
    f"{TURNS}_solved = _torch.linalg.solve_triangular(_lower, _sides, upper=False)"
)
_PLACED: Final = (
    f"{rand('_scores', '{n}, 8, 64, 64')}{rand('_table', '127, 8')}_at = _torch.arange(64)\n"
    f"_marks = _at[:, None] - _at[None] + 63\n"
    f"{TURNS}_biased = _scores + _table[_marks].permute(2, 0, 1)"
)
_KAHAN: Final = (
    f"{rand('_parts', '{n}')}_sum, _lost = _torch.zeros_like(_parts), _torch.zeros_like(_parts)\n"
    f"{TURNS}_more = _parts - _lost\n    _next = _sum + _more\n"
    "    _lost = (_next - _sum) - _more\n    _sum = _next"
)
_FOLDED: Final = f"{rand('_angles', '64')}{TIMES}_angles = _torch.remainder(_angles + 0.1, 6.2832)"
_AGREED: Final = (
    f"{_EACH}_agreed = [\n        _p.grad.sign() == _p.detach().sign() for _p in {{parameters}} "
    "if _p.grad is not None\n    ]"
)
_CLAMPED: Final = (
    f"{_EACH}for _p in {{parameters}}:\n        if _p.grad is not None:\n"
    "            _p.grad.clamp_(-1e3, 1e3)"
)
_BINNED: Final = (
    f"{rand('_draws', '512')}_ids = (50 * _draws).long()\n"
    f"{TIMES}_counts = _torch.bincount(_ids, minlength=50)"
)
_CLOSE: Final = (
    f"{ones('_here', '64')}{ones('_there', '64')}{TIMES}_same = _torch.allclose(_here, _there)"
)
_SCALARS: Final = f"{ones('_place', '1')}{TIMES}_scale = _torch.tensor(0.1 * _at).to(_place.device)"
_SHOWN: Final = f"{rand('_few', '8')}{TIMES}_shown = str(_few)"
_MAPPED: Final = (
    f"{rand('_rows', '16, 32')}{TIMES}_sizes = _torch.func.vmap("
    "lambda _row: (_row * _row).sum().sqrt())(_rows)"
)
_CROSSED: Final = (
    f"{rand('_left', '64, 3')}{rand('_right', '64, 3')}"
    f"{TIMES}_normals = _torch.linalg.cross(_left, _right)"
)
_INVERTED: Final = (
    f"{rand('_square', '8, 8')}_square += 8 * _torch.eye(8, {DEVICE})\n"
    f"{TIMES}_back = _torch.linalg.inv(_square)"
)

_BULKS: Final = (
    ("places-by-log-gamma", "log-gammas", _GAMMAS, (0.4, 0.0008), _MUCH, 64, BULK),
    ("logs-summed-along", "cumulative-logs", _LOGS, (6.0, 0.002), _MUCH, 128, BULK),
    ("views-through-a-grid", "sampled-grids", _GRIDS, (3.0, 0.01), _MUCH, 4096, BULK),
    ("values-counted-in-bins", "device-histograms", _COUNTS, (0.006, 4e-06), _MUCH, 1, READ),
    ("maxima-scattered", "scattered-maxima", _MAXIMA, (0.5, 0.001), _MUCH, 256, BULK),
    ("maps-calmed", "neighbour-norms", _NORMED, (30.0, 0.02), _MUCH, 4096, BULK),
    ("pixels-shuffled-back", "shuffled-pixels", _PIXELS, (8.0, 0.006), _MUCH, 3072, BULK),
    ("values-in-buckets", "bucketed-values", _BUCKETS, (0.08, 8e-06), _MUCH, 4, BULK),
    ("maps-pooled-and-back", "unpooled-maps", _UNPOOLED, (25.0, 0.012), _MUCH, 6144, BULK),
    ("few-of-many-words", "top-few", _FEW, (40.0, 0.02), _MOST, 2048, BULK),
    ("words-drawn-by-noise", "gumbel-draws", _GUMBEL, (35.0, 0.01), _MUCH, 2048, BULK),
    ("looks-by-angle", "cosine-looks", _COSINE, (20.0, 0.06), _MUCH, 8192, ("G505", *_HEAVY)),
    ("sides-solved", "triangular-solves", _SOLVED, (0.9, 0.03), _MUCH, 1024, _HEAVY),
    ("scores-by-place", "gathered-positions", _PLACED, (60.0, 0.11), _MUCH, 65536, BULK),
    ("losses-summed-with-care", "kahan-sums", _KAHAN, (0.004, 2e-05), _MUCH, 6, BULK),
)
_SMALLS: Final = (
    ("angles-folded", "folded-angles", _FOLDED, (6.0, 14.0), _CALLS, SMALL),
    ("signs-that-agree", "sign-agreements", _AGREED, (6.0, 18.0), _CALLS, _LOOPS),
    ("slopes-clamped-singly", "clamped-slopes", _CLAMPED, (2.0, 6.0), _CALLS, _LOOPS),
    ("ids-counted", "counted-ids", _BINNED, (4.0, 50.0), _MUCH, READ),
    ("closeness-asked", "close-checks", _CLOSE, (20.0, 80.0), _MUCH, READ),
    ("tensors-as-text", "tensor-texts", _SHOWN, (110.0, 300.0), _MUCH, (*READ, "G702")),
    ("rows-mapped", "mapped-functions", _MAPPED, (85.0, 90.0), _CALLS, SMALL),
    ("normals-crossed", "small-crosses", _CROSSED, (8.0, 14.0), _CALLS, SMALL),
    ("squares-inverted", "small-inverses", _INVERTED, (12.0, 80.0), _SOME, (*READ, *SMALL)),
)
_ON_GPU: Final = (("scalars-sent", "sent-scalars", _SCALARS, 18.0, (*SENT, *SMALL)),)
PLANTS: Final = (
    *(
        Plant(name, family, computed(text, unit, share, TORCH, (width, 1.0)), codes, at_line=True)
        for name, family, text, unit, share, width, codes in _BULKS
    ),
    *(
        Plant(name, family, beside(text, unit, share, TORCH), codes, at_line=True)
        for name, family, text, unit, share, codes in _SMALLS
    ),
    *(
        Plant(name, family, beside(text, unit, 0.7, TORCH), codes, devices=CUDA, at_line=True)
        for name, family, text, unit, codes in _ON_GPU
    ),
)
