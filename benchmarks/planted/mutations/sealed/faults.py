"""Faults of the unseen half: rule makers do not read this file."""

from typing import Final

from benchmarks.planted.mutations.opened.amounts import beside, computed, in_samples, seldom
from benchmarks.planted.mutations.opened.wording import (
    ARRAYS,
    BULK,
    DEVICE,
    FEW,
    FILES,
    MADE,
    MORE,
    PYTHON,
    READ,
    SELDOM,
    SMALL,
    TIMES,
    TORCH,
    TURNS,
    rand,
)
from benchmarks.planted.mutations.plant import Plant

_LITTLE: Final = (0.15, 1.1)  # of a healthy step, on the CPU and beside a GPU
_SOME: Final = (0.4, 1.4)
_MUCH: Final = (0.8, 1.9)
_TENSORS: Final = (0.5, 0.8)  # the same of what a GPU computes

_LATTICE: Final = """import math as _math
_angles = [2.4 * _at for _at in range(25)]

"""
_TEXTURED: Final = """for _ in range({n}):
    _texture = []
    for _r, _c in ((_r, _c) for _r in range(8) for _c in range(8)):
        _y, _x, _height = _r / 2, _c / 2, 0.0
        for _dy in (0, 1):
            for _dx in (0, 1):
                _angle = _angles[5 * (int(_y) + _dy) + int(_x) + _dx]
                _up, _right = _y % 1 - _dy, _x % 1 - _dx
                _share = (1 - abs(_up)) ** 2 * (1 - abs(_right)) ** 2
                _height += _share * (_up * _math.sin(_angle) + _right * _math.cos(_angle))
        _texture.append(_height)"""
_SPEECH: Final = (
    '_speech = "she sells sea shells by the sea shore and he hears her sell them " * 2\n'
)
_ENDINGS: Final = """for _ in range({n}):
    _endings = sorted(range(len(_speech)), key=lambda _at: _speech[_at:])
    _shared = [
        next((_n for _n in range(40) if _speech[_a + _n : _a + _n + 1] != _speech[_b + _n]), 0)
        for _b, _a in zip(_endings, _endings[1:])
        if _b < 90
    ]"""
_HOLES: Final = """import numpy as _numpy
_holed = _numpy.ma.masked_greater(_numpy.arange(512.0).reshape(16, 32) % 13, 10)

"""
_AROUND_HOLES: Final = """for _ in range({n}):
    _filled = ((_holed - _holed.mean(0)) / _holed.std(0)).filled(0.0)"""
_STAGES: Final = """def _stage(values, offset):
    for value in values:
        yield value + offset


"""
_STAGED: Final = """for _ in range({n}):
    _values = iter(range(64))
    for _offset in range(12):
        _values = _stage(_values, _offset)
    _values = list(_values)"""
_SENT: Final = "_sent = [37 * _at % 16 for _at in range(48)]\n"
_GUARDED: Final = """for _ in range({n}):
    _words = []
    for _value in _sent:
        _a, _b, _c, _d = (_value >> _bit & 1 for _bit in range(4))
        _word = [_a ^ _b ^ _d, _a ^ _c ^ _d, _a, _b ^ _c ^ _d, _b, _c, _d]
        _wrong = sum(_at for _at, _bit in enumerate(_word, 1) if _bit)
        _words.append(_word if _wrong % 8 == 0 else _word[::-1])"""
_EVENTS: Final = (
    '_events = "".join(f"step {_at}: loss {_at % 7} rate {_at % 3}; " for _at in range(9))\n'
)
_CODED: Final = f"""{TIMES}_known, _so_far, _coded = {{}}, "", []
    for _sign in _events:
        if _so_far + _sign in _known or not _so_far:
            _so_far += _sign
            continue
        _coded.append(_known.get(_so_far, 0))
        _known[_so_far + _sign] = len(_known) + 1
        _so_far = _sign"""
_BLOCKS: Final = "import mmap as _mmap\n"
_MAPPED: Final = f"""{TIMES}_block = _mmap.mmap(-1, 1 << 18)
    for _page in range(0, 1 << 18, 4096):
        _block[_page] = 1
    _block.close()"""
_SYSTEM: Final = "import random as _random\n_system = _random.SystemRandom()\n"
_CHANCE: Final = f"{TIMES}_chance = _system.random()"
_CARE: Final = """import statistics as _statistics
_past = [2.0 + 0.01 * (_at * 37 % 50) for _at in range(60)]
"""
_CAREFUL: Final = f"{TIMES}_spread = _statistics.pstdev(_past) / _statistics.mean(_past)"
_TRACKED: Final = (
    f"_seen, _place, _doubt = _torch.ones(2, {DEVICE}), _torch.zeros(2, {DEVICE}), "
    f"_torch.eye(2, {DEVICE})\n"
    f"_moves = _torch.eye(2, {DEVICE}) + 0.1 * _torch.ones(2, 2, {DEVICE}).triu(1)\n"
    f"{TIMES}_place, _doubt = _moves @ _place, _moves @ _doubt @ _moves.T + 0.01\n"
    "    _gain = _doubt / (_doubt + 0.5)\n"
    "    _place = _place + _gain @ (_seen - _place)\n"
    "    _doubt = _doubt - _gain @ _doubt"
)
_CONJUGATED: Final = (
    f"{rand('_weights', '32, 32')}_weights = _weights @ _weights.T + 32\n"
    f"_answer = _torch.zeros(32, {DEVICE})\n"
    "_rest = _torch.ones_like(_answer) - _weights @ _answer\n"
    "_way = _rest\n"
    f"{TIMES}_length = _rest @ _rest\n"
    "    if _length.item() < 0:\n"
    "        break\n"
    "    _along = _weights @ _way\n"
    "    _pace = _length / (_way @ _along + 1e-9)\n"
    "    _answer, _rest = _answer + _pace * _way, _rest - _pace * _along\n"
    "    _way = _rest + (_rest @ _rest) / (_length + 1e-9) * _way"
)
_HALVED: Final = (
    f"{rand('_apart', '512')}_low, _high = 1e-3, 1e3\n"
    f"{TIMES}_warmth = (_low * _high) ** 0.5\n"
    "    _shares = (-_apart / _warmth).softmax(0)\n"
    "    if -(_shares * (_shares + 1e-9).log()).sum() > 3.0:\n"
    "        _high = _warmth\n"
    "    else:\n"
    "        _low = _warmth * 0.999"
)
_TURNED: Final = (
    f"{rand('_signals', '{n}, 256')}"
    f"{TURNS}for _half in (1, 2, 4, 8, 16, 32, 64, 128):\n"
    "        _pairs = _signals.unflatten(1, (-1, 2, _half))\n"
    "        _left, _right = _pairs[:, :, 0], _pairs[:, :, 1]\n"
    "        _signals = _torch.stack((_left + _right, _left - _right), 2).flatten(1) * 0.7"
)
_SLICED: Final = (
    f"{rand('_ones', '{n}, 16')}{rand('_others', '{n}, 16')}"
    f"{TURNS}_ways = _torch.nn.functional.normalize(_torch.randn(16, 8, {DEVICE}), dim=0)\n"
    "    _apart = (_ones @ _ways).sort(0).values - (_others @ _ways).sort(0).values\n"
    "    _apart = _apart.square().mean()"
)
_COMPARED: Final = (
    f"{rand('_greys', '{n}, 32, 32')}"
    f"{TURNS}_middle, _bits = _greys[:, 1:-1, 1:-1], 0\n"
    "    for _at in range(8):\n"
    "        _r, _c = divmod(_at + (_at > 3), 3)\n"
    "        _bits = _bits + (_greys[:, _r : _r + 30, _c : _c + 30] > _middle).int() * 2**_at"
)
_RELAXED: Final = (
    f"{rand('_field', '64, 64')}"
    f"{TIMES}_field[1:-1, 1:-1] = (\n"
    "        _field[:-2, 1:-1] + _field[2:, 1:-1] + _field[1:-1, :-2] + _field[1:-1, 2:]\n"
    "    ) / 4"
)
_SHARED: Final = (
    f"_strengths = _torch.full(({{n}}, 16), 0.4, {DEVICE})\n"
    f"{TURNS}_drawn = _torch._standard_gamma(_strengths)\n"
    "    _shares = _drawn / _drawn.sum(1, keepdim=True)"
)
_CHAINED: Final = (
    f"{rand('_links', '128, 64')}_seen = _torch.zeros({{n}}, 128, {DEVICE})\n"
    f"{TURNS}_hidden = (_seen @ _links - 16).sigmoid().bernoulli()\n"
    "    _seen = (_hidden @ _links.T - 16).sigmoid().bernoulli()"
)

_SAMPLES: Final = (
    ("textures-from-slopes", "slope-textures", _TEXTURED, 180.0, _MUCH, _LATTICE, MADE),
    (
        "endings-in-order",
        "ordered-endings",
        _ENDINGS,
        185.0,
        _LITTLE,
        _SPEECH,
        (*FEW, "G109", "G108"),
    ),
    ("holes-left-out", "holed-arrays", _AROUND_HOLES, 300.0, _SOME, _HOLES, MADE),
    ("values-through-stages", "chained-stages", _STAGED, 20.0, _MUCH, _STAGES, MADE),
    ("words-guarded", "guard-bits", _GUARDED, 64.0, _SOME, _SENT, MADE),
)
_CHORES: Final = (
    ("events-in-codes", "learned-codes", _CODED, 33.0, _MUCH, _EVENTS, (*PYTHON, "G702")),
    ("blocks-mapped-anew", "fresh-mappings", _MAPPED, 80.0, _SOME, _BLOCKS, FILES),
    ("chance-of-the-system", "system-chances", _CHANCE, 0.6, _MUCH, _SYSTEM, FILES),
)
_LOOPS: Final = (
    ("track-followed", "followed-tracks", _TRACKED, (22.0, 110.0), (0.7, 0.9), SMALL),
    ("answer-by-turns", "conjugate-turns", _CONJUGATED, (22.0, 110.0), _TENSORS, (*READ, *SMALL)),
    ("warmth-by-halves", "halved-bounds", _HALVED, (20.0, 70.0), (0.2, 0.35), (*READ, *SMALL)),
    ("field-at-rest", "relaxed-fields", _RELAXED, (18.0, 35.0), (0.3, 0.5), SMALL),
)
_MASSES: Final = (
    ("signals-in-signs", "sign-turns", _TURNED, (4.5, 0.012), (0.5, 0.7), (256, 1.0)),
    ("crowds-by-slices", "sliced-crowds", _SLICED, (1.2, 0.01), (0.15, 0.25), (16, 1.0)),
    ("neighbours-as-bits", "neighbour-bits", _COMPARED, (16.0, 0.08), (0.8, 0.9), (1024, 1.0)),
    ("shares-drawn", "drawn-shares", _SHARED, (1.0, 0.003), (0.25, 0.5), (16, 1.0)),
    ("chains-of-chances", "chance-chains", _CHAINED, (1.3, 0.003), (0.6, 0.8), (128, 1.0)),
)
PLANTS: Final[tuple[Plant, ...]] = (
    *(
        Plant(name, family, in_samples(text, unit, share, top), codes, MORE, "loader", at_line=True)
        for name, family, text, unit, share, top, codes in _SAMPLES
    ),
    *(
        Plant(name, family, beside(text, unit, share, top), codes, at_line=True)
        for name, family, text, unit, share, top, codes in _CHORES
    ),
    *(
        Plant(name, family, beside(text, unit, share, TORCH), codes, at_line=True)
        for name, family, text, unit, share, codes in _LOOPS
    ),
    *(
        Plant(name, family, computed(text, unit, share, TORCH, size), BULK, at_line=True)
        for name, family, text, unit, share, size in _MASSES
    ),
    Plant(
        "spread-with-care",
        "careful-spreads",
        seldom(_CAREFUL, 115.0, _LITTLE, _CARE),
        (*SELDOM, *ARRAYS),
        at_line=True,
    ),
)
