"""Faults in what a step compares and computes, in bulk or in many pieces."""

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

_HEAVY: Final = ("G501", "G502", "G504", *BULK)
_OVER: Final = "for _ in range(max(1, {n} // len({parameters}))):\n    "


_OVERLAPS: Final = (
    f"{rand('_left', '{n}, 1, 4')}{rand('_right', '1, 64, 4')}{TURNS}"
    "_ends = _torch.minimum(_left[..., 2:], _right[..., 2:])\n"
    "    _sides = (_ends - _torch.maximum(_left[..., :2], _right[..., :2])).clamp(min=0)\n"
    "    _overlap = _sides.prod(-1)"
)
_SORTED: Final = f"{rand('_scores', '{n}, 512')}{TURNS}_ranked = _scores.sort(1).indices"
_ALIKE: Final = f"{rand('_features', '{n}, 256')}{TURNS}_alike = _features @ _features.t()"
_ATTENDED: Final = (
    f"{rand('_asked', '8, {n}, 64')}"
    f"{TURNS}_attended = (_asked @ _asked.transpose(1, 2) / 8).softmax(-1)"
)
_LONG: Final = (
    f"_numbers = _torch.arange({{n}}, {DEVICE})\n{TURNS}_hashed = (_numbers * 7919) % 10007"
)
_ENERGIES: Final = f"{rand('_raw', '{n}, 128')}{TURNS}_energies = _raw.logsumexp(1)"
_RUNNING: Final = f"{rand('_marks', '64, {n}')}{TURNS}_records = _marks.cummax(1).values"
_SMOOTHED: Final = (
    f"_classes = _torch.arange({{n}}, {DEVICE})[:, None] % 1000\n"
    f"{TURNS}_soft = _torch.full(({{n}}, 1000), 1e-4, {DEVICE}).scatter_(1, _classes, 0.9)"
)
_CORRELATED: Final = f"{rand('_seen', '64, {n}')}{TURNS}_correlated = _torch.corrcoef(_seen)"
_MASKS: Final = (
    f"_even = _torch.full(({{n}},), 0.5, {DEVICE})\n{TURNS}_masks = _torch.bernoulli(_even)"
)
_DRAWN: Final = f"{ones('_odds', '1000')}{TURNS}_drawn = _torch.multinomial(_odds, {{n}}, True)"
_TABLE: Final = f"{TORCH}_anchors = _torch.zeros({{n}})\n"
_MOVED: Final = f"{TURNS}_moved = _anchors.to({{parameters}}[0].device)"
_HOME: Final = f"{ones('_map', '{n}')}{TURNS}_home = _map.cpu()"
_SUPPRESSED: Final = (
    f"{rand('_chances', '64')}{TIMES}_first = int(_chances.argmax())\n    _chances[_first] = -1"
)
_SCALED: Final = (
    f"{ones('_rows', '32, 64')}{TIMES}_scaled = _rows[_at % 32] / _rows[_at % 32].norm()"
)
_ROTATED: Final = (
    f"{ones('_pictures', '16, 3, 32, 32')}"
    f"{TIMES}_rotated = _pictures[_at % 16].rot90(_at % 4, (1, 2)).flip(2)"
)
_LONGEST: Final = f"_lengths = _torch.arange(64, {DEVICE})\n{TIMES}_longest = int(_lengths.max())"
_FLOWED: Final = (
    f"{ones('_state', '32, 16')}{ones('_pull', '16, 16')}"
    f"{TIMES}_state = _state + 0.01 * (_state @ _pull).tanh()"
)
_EXPERTS: Final = (
    f"{ones('_tokens', '64, 32')}{ones('_expert', '32, 32')}"
    f"_chosen = _torch.arange(64, {DEVICE}) % 4\n"
    f"{TIMES}_worked = _tokens[_chosen == _at % 4] @ _expert"
)
_HEADS: Final = (
    f"{ones('_heads', '8, 32, 16')}{TIMES}_head = _heads[_at % 8]\n"
    "    _mixed = (_head @ _head.t()).softmax(-1) @ _head"
)
_WINDOWS: Final = (
    f"{ones('_series', '8, 256')}{TIMES}_level = _series[:, _at % 200 : _at % 200 + 50].mean(1)"
)
_CHANNELS: Final = (
    f"{ones('_channels', '8, 1, 1, 128')}{ones('_kernel', '1, 1, 9')}"
    f"{TIMES}_filtered = _torch.nn.functional.conv1d(_channels[_at % 8], _kernel)"
)
_BOUNDED: Final = f"{_OVER}for _p in {{parameters}}:\n        _p.detach().clamp_(-1000.0, 1000.0)"
_DRIFTED: Final = (
    "if not _begun:\n    _begun.extend(_p.detach().clone() for _p in {parameters})\n"
    f"{_OVER}_drift = [\n"
    "        float((_p.detach() - _then).norm())\n"
    "        for _p, _then in zip({parameters}, _begun)\n"
    "    ]"
)
_HALVED: Final = f"{_OVER}_halves = [_p.detach().half() for _p in {{parameters}}]"
_BRANCHED: Final = f"{ones('_votes', '64')}{TIMES}if _votes.sum() > _at:\n        _passed = _at"
_LAYERS: Final = f"""import torch.fx as _fx
{TORCH}_layers = _torch.nn.Sequential(_torch.nn.Linear(4, 4), _torch.nn.ReLU())
"""
_SYMBOLIC: Final = f"{TIMES}_graph = _fx.symbolic_trace(_layers)"
_MEETING: Final = """import os as _os
import tempfile as _tempfile
import torch as _torch
import torch.distributed as _ranks
_place = f"file://{_os.path.join(_tempfile.mkdtemp(), 'place')}"
"""
_GATHERED: Final = """if not _ranks.is_initialized():
    _ranks.init_process_group("gloo", init_method=_place, rank=0, world_size=1)
_everyone = [None]
for _at in range({n}):
    _ranks.all_gather_object(_everyone, {"step": _at, "loss": 0.5})"""
_STREAMS: Final = (
    f"{ones('_early', '64')}{TIMES}_stream = _torch.cuda.Stream()\n"
    "    with _torch.cuda.stream(_stream):\n        _late = _early * 2\n"
    "    _stream.synchronize()"
)
_ENTERED: Final = f"{TIMES}with _torch.cuda.device(0):\n        pass"
_KEPT: Final = f"{TIMES}_answers.append({{output}}.detach().cpu())"
_ANSWERS: Final = "import collections as _collections\n_answers = _collections.deque(maxlen=8)\n"
_CLASSES: Final = (
    f"_guessed = {{output}}.detach().flatten()[:512]\n{TIMES}_above = (_guessed > _at).sum().item()"
)
_TEXT: Final = (
    f"{TIMES}_line = ','.join(\n"
    "        f'{{value:.4f}}' for value in {output}.detach().flatten()[:64].tolist()\n"
    "    )"
).replace("{{value:.4f}}", "{value:.4f}")
_HELD: Final = f"{TIMES}_held = {{output}}.detach().nan_to_num().clamp(-1e4, 1e4)"

_BULKS: Final = (
    ("boxes-overlapped-all", "box-overlaps", _OVERLAPS, (1.4, 0.004), MUCH, 128, 1.0, BULK),
    ("sorted-in-full", "full-sorts", _SORTED, (26.0, 0.05), SOME, 512, 1.0, BULK),
    ("likeness-of-all", "likenesses", _ALIKE, (0.007, 1.4e-5), MUCH, 1, 2.0, _HEAVY),
    ("attention-for-show", "shown-attention", _ATTENDED, (0.045, 1e-4), SOME, 8, 2.0, _HEAVY),
    ("hashed-in-long-numbers", "long-numbers", _LONG, (0.008, 1.6e-5), MOST, 2, 1.0, BULK),
    ("energies-by-logs", "log-energies", _ENERGIES, (0.9, 6e-4), MUCH, 128, 1.0, BULK),
    ("records-kept-running", "running-records", _RUNNING, (0.5, 0.004), LITTLE, 192, 1.0, BULK),
    ("labels-smoothed-anew", "smoothed-tables", _SMOOTHED, (1.6, 0.003), MUCH, 1000, 1.0, BULK),
    ("features-correlated", "correlated", _CORRELATED, (0.5, 0.003), SOME, 128, 1.0, BULK),
    ("masks-drawn-for-show", "drawn-masks", _MASKS, (0.017, 1.2e-5), MUCH, 1, 1.0, BULK),
    ("drawn-with-weights", "device-draws", _DRAWN, (0.1, 2e-4), SOME, 1, 1.0, BULK),
)
_SMALLS: Final = (
    ("boxes-suppressed-singly", "suppressions", _SUPPRESSED, (7.0, 45.0), MUCH, (*READ, "G304")),
    ("rows-scaled-singly", "scaled-rows", _SCALED, (14.0, 24.0), MOST, SMALL),
    ("pictures-flipped-singly", "flipped-pictures", _ROTATED, (17.0, 20.0), SOME, SMALL),
    ("length-asked-of-device", "asked-lengths", _LONGEST, (3.5, 26.0), SOME, READ),
    ("paths-by-small-steps", "small-steps", _FLOWED, (20.0, 22.0), MUCH, SMALL),
    ("experts-in-a-loop", "looped-experts", _EXPERTS, (16.0, 60.0), MUCH, (*READ, "G506")),
    ("heads-in-a-loop", "looped-heads", _HEADS, (15.0, 32.0), SOME, (*SMALL, "G505")),
    ("windows-in-a-loop", "looped-windows", _WINDOWS, (8.0, 16.0), LITTLE, SMALL),
    ("channels-in-a-loop", "looped-channels", _CHANNELS, (10.0, 36.0), MOST, SMALL),
    ("weights-held-in-bounds", "held-weights", _BOUNDED, (3.5, 7.0), MUCH, (*SMALL, "G216")),
    ("drift-from-the-start", "drifts", _DRIFTED, (10.0, 40.0), SOME, (*READ, "G206", "G506")),
    ("weights-halved-again", "halved-weights", _HALVED, (3.0, 8.0), MUCH, ("G508", *SMALL)),
    ("branches-on-the-device", "device-branches", _BRANCHED, (5.0, 30.0), MUCH, READ),
)
_OUTPUTS: Final = (
    ("answers-kept-on-host", "kept-answers", _KEPT, (1.8, 30.0), MUCH, READ, _ANSWERS),
    ("classes-counted-by-reading", "read-counts", _CLASSES, (11.0, 40.0), SOME, READ, ""),
    ("answers-as-text", "written-answers", _TEXT, (14.0, 60.0), MOST, READ, ""),
    ("answers-held-in-bounds", "held-answers", _HELD, (6.0, 16.0), MUCH, SMALL, ""),
)
_OTHERS: Final = (
    ("layers-traced-again", "symbolic-traces", _SYMBOLIC, 2000.0, SOME, (*SMALL, "G222"), _LAYERS),
    (
        "objects-gathered-alone",
        "lonely-objects",
        _GATHERED,
        130.0,
        MUCH,
        ("G603", "G607", *SMALL),
        _MEETING,
    ),
)
_ON_GPU: Final = (
    ("anchors-sent-again", "unregistered-tables", _MOVED, 0.0007, MUCH, SENT, _TABLE),
    ("maps-brought-home", "home-brought-maps", _HOME, 0.0012, SOME, READ, TORCH),
)
_CALLS: Final = (
    ("streams-made-again", "made-streams", _STREAMS, 60.0, MUCH, ("G306", *READ)),
    ("device-entered-again", "entered-devices", _ENTERED, 4.0, SOME, SMALL),
)
PLANTS: Final = (
    *(
        Plant(name, family, computed(text, unit, share, TORCH, (width, power)), codes, at_line=True)
        for name, family, text, unit, share, width, power, codes in _BULKS
    ),
    *(
        Plant(
            name,
            family,
            beside(text, unit, share, f"{TORCH}_begun = []\n"),
            codes,
            at_line=True,
        )
        for name, family, text, unit, share, codes in _SMALLS
    ),
    *(
        Plant(name, family, on_output(text, unit, share, top), codes, at_line=True)
        for name, family, text, unit, share, codes, top in _OUTPUTS
    ),
    *(
        Plant(name, family, beside(text, unit, share, top), codes, at_line=True)
        for name, family, text, unit, share, codes, top in _OTHERS
    ),
    *(
        Plant(name, family, computed(text, unit, share, top), codes, devices=CUDA, at_line=True)
        for name, family, text, unit, share, codes, top in _ON_GPU
    ),
    *(
        Plant(name, family, beside(text, unit, share, TORCH), codes, devices=CUDA, at_line=True)
        for name, family, text, unit, share, codes in _CALLS
    ),
)
