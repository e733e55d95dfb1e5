"""Faults in what is computed beside a step with tensors."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.amounts import SHARES, share_on
from benchmarks.planted.mutations.opened.wording import (
    BULK,
    CHORE,
    DEVICE,
    MANY,
    TORCH,
)
from benchmarks.planted.mutations.parts import Unit, amount
from benchmarks.planted.mutations.plant import CUDA, ChangeOf, Plant, Site, after_step
from benchmarks.planted.source import Change

_READ: Final = ("G305", "G307", "G308", "G202", "G201")
_LARGEST: Final = 30_000_000  # elements of one tensor


def powered(
    text: str, unit_us: Unit, top: str = TORCH, power: float = 1.0, width: int = 1
) -> ChangeOf:
    """Compute behind the step what costs a share of it by ``{n}`` to a power."""

    def change(site: Site) -> Sequence[Change] | None:
        share = share_on(site, SHARES)
        number = min(_LARGEST // width, amount(site, unit_us, share)) ** (1 / power)
        side = str(max(2, int(number)))
        return after_step(text.replace("{n}", side), top.replace("{n}", side))(site)

    return change


_WAVES: Final = (
    f"_tone = _torch.ones(64, {{n}}, {DEVICE})\n_spectrum = _torch.fft.rfft(_tone).abs()"
)
_SPREAD: Final = (
    f"_classes = _torch.arange({{n}}, {DEVICE}) % 500\n"
    "_number_of = _torch.nn.functional.one_hot(_classes, 500).sum(0)"
)
_OUTER: Final = (
    f"_side = _torch.ones({{n}}, {DEVICE})\n_curvature = _torch.outer(_side, _side).add_(0.1)"
)
_EDGED: Final = (
    f"_edged = _torch.ones(1, 1, 24, 24, {DEVICE})\n"
    "for _ in range({n}):\n"
    "    _edged = _torch.nn.functional.pad(_edged, (1, 0, 1, 0))[..., :24, :24]"
)
_PLACES: Final = (
    f"_marks = _torch.arange(64, {DEVICE}) % 3\n"
    "for _at in range({n}):\n"
    "    _places = (_marks == _at % 3).nonzero()"
)
_EVEN: Final = (
    f"_plan = _torch.rand(24, 24, {DEVICE}) + 0.1\n"
    "for _ in range({n}):\n"
    "    _plan = _plan / _plan.sum(1, keepdim=True)\n"
    "    _plan = _plan / _plan.sum(0, keepdim=True)\n"
    "    if (_plan.sum(1) - 1).abs().max().item() < 0.0:\n"
    "        break"
)
_REPEATED: Final = (
    f"_line = _torch.ones(1, 256, {DEVICE})\n_mean_line = _line.repeat({{n}}, 1).mean(0)"
)
_FLATTENED: Final = (
    "for _ in range(max(1, {n} // len({parameters}))):\n"
    "    _vector = _torch.cat([_p.detach().reshape(-1)[:1000] for _p in {parameters}])"
)
_CAST: Final = (
    f"_wide = _torch.ones({{n}}, {DEVICE})\n"
    "for _ in range(4):\n"
    "    _wide = _wide.to(_torch.bfloat16).float()"
)
_SLOPES: Final = (
    f"_at = _torch.ones({{n}}, {DEVICE})\n"
    "_slopes = _torch.autograd.functional.jacobian(lambda x: x.sin() * x, _at)"
)
_SCALARS: Final = (
    "if not _tuners:\n"
    "    _extra = []\n"
    "    for _ in range({n}):\n"
    f"        _scalar = _torch.nn.Parameter(_torch.zeros(1, {DEVICE}))\n"
    "        _scalar.grad = _torch.zeros_like(_scalar)\n"
    "        _extra.append(_scalar)\n"
    "    _tuners.append(_torch.optim.RMSprop(_extra, lr=1e-3, foreach=False))\n"
    "_tuners[0].step()"
)
_NAMED: Final = (
    "for _part in range({n}):\n"
    "    with _torch.profiler.record_function(f'part {_part}'):\n"
    "        pass"
)
_SEEDED: Final = "for _at in range({n}):\n    _draws = _torch.Generator().manual_seed(_at)"
_PINNED: Final = "_pinned = _torch.ones({n}).pin_memory().to({parameters}[0].device)"
_NEIGHBOURS: Final = (
    f"_crowd = _torch.rand({{n}}, 8, {DEVICE})\n"
    "_close = _torch.cdist(_crowd, _crowd).topk(2, largest=False).indices"
)
_FILLED: Final = (
    f"_sheet = _torch.zeros(32, 32, {DEVICE})\n"
    "for _row in range({n}):\n"
    "    _sheet[_row % 32] = _row"
)
_TWISTED: Final = (
    f"_block = _torch.ones(64, {{n}}, {DEVICE})\n"
    "_twisted = _block.flip(1).cumsum(1).flip(1).roll(1, 1)"
)

_KINDS: Final = (
    ("waves-of-tones", "spectra-of-tones", _WAVES, (0.75, 0.0015), 64, 1.0, BULK),
    ("counted-by-spreading", "spread-counts", _SPREAD, (1.5, 0.007), 500, 1.0, (*BULK, "G519")),
    ("outer-for-curvature", "outer-products", _OUTER, (0.0033, 0.00001), 1, 2.0, BULK),
    ("edges-added-by-turns", "added-edges", _EDGED, (14.0, 16.0), 1, 1.0, (*MANY, *CHORE)),
    ("places-listed", "listed-places", _PLACES, (9.0, 35.0), 1, 1.0, (*_READ, *BULK)),
    ("plan-made-even", "even-plans", _EVEN, (36.0, 75.0), 1, 1.0, (*_READ, *BULK)),
    ("line-repeated", "repeated-lines", _REPEATED, (0.35, 0.001), 256, 1.0, BULK),
    ("weights-in-one-line", "flat-weights", _FLATTENED, (8.0, 9.0), 1, 1.0, (*MANY, *CHORE)),
    ("cast-to-and-fro", "casts", _CAST, (0.006, 0.00002), 1, 1.0, ("G508", "G512", *BULK)),
    ("slopes-of-each-output", "jacobians", _SLOPES, (100.0, 120.0), 1, 1.0, (*MANY, *CHORE)),
    ("parts-named", "named-parts", _NAMED, (12.0, 12.0), 1, 1.0, ("G212", "G201", "G202", *CHORE)),
    ("draws-begun-again", "begun-draws", _SEEDED, (6.0, 6.0), 1, 1.0, ("G202", *CHORE)),
    ("neighbours-of-a-crowd", "crowds", _NEIGHBOURS, (0.006, 0.00005), 1, 2.0, BULK),
    (
        "sheet-filled-by-rows",
        "filled-rows",
        _FILLED,
        (5.5, 12.0),
        1,
        1.0,
        (*MANY, "G304", *CHORE),
    ),
    ("sums-from-behind", "twisted-sums", _TWISTED, (0.52, 0.0012), 64, 1.0, BULK),
)
PLANTS: Final = (
    *(
        Plant(name, family, powered(text, unit, TORCH, power, width), codes, at_line=True)
        for name, family, text, unit, width, power, codes in _KINDS
    ),
    Plant(
        "scalars-tuned-singly",
        "tuned-scalars",
        powered(_SCALARS, (40.0, 60.0), f"{TORCH}_tuners = []\n"),
        ("G204", "G205", *MANY, *CHORE),
        ("foreach", "fused"),
        at_line=True,
    ),
    Plant(
        "pinned-anew",
        "anew-pinned",
        powered(_PINNED, 0.002),
        ("G301", "G302", "G303", "G403", *CHORE, "G202"),
        devices=CUDA,
        at_line=True,
    ),
)
