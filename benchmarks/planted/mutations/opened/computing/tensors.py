"""Faults in what a step computes with tensors."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.opened.wording import (
    CHORE,
    MANY,
    TORCH,
)
from benchmarks.planted.mutations.parts import (
    Unit,
    amount,
    of_output,
)
from benchmarks.planted.mutations.plant import (
    CPU,
    CUDA,
    ChangeOf,
    Plant,
    Site,
    after_step,
    before_backward,
)
from benchmarks.planted.source import Change

_SHARE: Final = 0.5  # of a healthy step
_READ: Final = ("G305", "G307", "G308", "G202", "G201")
_LARGEST: Final = 20_000_000  # elements of one tensor


def _placed(text: str, unit_us: Unit, top: str = "", power: float = 1.0) -> ChangeOf:
    """Put lines behind the step whose ``{n}`` costs a share of it, by a power."""

    def change(site: Site) -> Sequence[Change] | None:
        number = min(_LARGEST, amount(site, unit_us, _SHARE)) ** (1 / power)
        side = str(max(3, int(number)))
        return after_step(text.replace("{n}", side), top.replace("{n}", side))(site)

    return change


def _named(site: Site) -> Sequence[Change] | None:
    """Give what the model said the names of classes, where it gives tensors."""
    if "torch.distributions.Normal(" in site.source.text:
        return None
    return of_output(_NAMED, 60.0, _NAMES)(site)


def _first(site: Site) -> Sequence[Change] | None:
    """Compare losses as tensors for the best so far."""
    text = "_best_loss[0] = min(_best_loss[0], {loss}.detach().sum())"
    return before_backward(text, "_best_loss = [float('inf')]\n")(site)


_MASK: Final = (
    "_mask = _torch.tensor(\n"
    "    [[column <= row for column in range({n})] for row in range({n})],\n"
    "    device={parameters}[0].device,\n"
    ")"
)
_NAMED: Final = (
    "for _ in range({n}):\n"
    "    _named = [\n"
    "        _names[int(abs(value)) % 10]\n"
    "        for value in {output}.detach().flatten()[:1024].tolist()\n"
    "    ]"
)
_NAMES: Final = """_names = [f"class {_number}" for _number in range(10)]
"""
_PAST: Final = (
    "_past.append(_torch.zeros({n}, device={parameters}[0].device))\n"
    "_usual = _torch.stack(list(_past)).mean(0)"
)
_QUEUED: Final = """import collections as _collections
import torch as _torch
_past = _collections.deque(maxlen=20)
"""
_BALANCE: Final = (
    "_plan = _torch.ones(64, 64, device={parameters}[0].device)\n"
    "for _ in range({n}):\n"
    "    _plan = _plan / _plan.sum(0, keepdim=True)\n"
    "    _plan = _plan / _plan.sum(1, keepdim=True)"
)
_RETURNS: Final = (
    "_rewards = _torch.ones({n}, device={parameters}[0].device)\n"
    "_return = _rewards[0] * 0\n"
    "for _at in reversed(range({n})):\n"
    "    _return = _rewards[_at] + 0.99 * _return"
)
_ROWS: Final = (
    "_table = {parameters}[0].detach().flatten()\n"
    "_looked_up = _torch.stack([_table[_row % len(_table)] for _row in range({n})])"
)
_DIFFERENT: Final = (
    "_values = _torch.linspace(0.0, 1e4, {n}, device={parameters}[0].device).sin().mul(1e3).int()\n"
    "_kinds, _each = _torch.unique(_values, return_counts=True)"
)
_ENLARGED: Final = (
    "_picture = _torch.zeros(1, 3, 32, 32, device={parameters}[0].device)\n"
    "_enlarged = _torch.nn.functional.interpolate(\n"
    "    _picture, size=({n}, {n}), mode='bicubic', align_corners=False\n"
    ")"
)
_FADED: Final = "_faded = _torch.full(({n},), 1e-40)\n_trace = _faded * 0.5 + _faded"
_INDEXED: Final = (
    "_bank = {parameters}[0].detach().flatten()\n"
    "_picked = _bank[[_row % len(_bank) for _row in range({n})]]"
)
_ENTROPY: Final = (
    "_scores = _torch.ones({n}, 128, device={parameters}[0].device)\n"
    "_entropy = _torch.distributions.Categorical(logits=_scores).entropy().mean()"
)
_SAMPLED: Final = (
    "_weights = _torch.ones(64, {n}, device={parameters}[0].device)\n"
    "_draws = _torch.cumsum(_weights / _weights.sum(1, keepdim=True), 1)\n"
    "_picks = _torch.searchsorted(_draws, _torch.full((64, 16), 0.5, device=_draws.device))"
)

PLANTS: Final = (
    Plant(
        "mask-written-out-again",
        "masks-anew",
        _placed(_MASK, (0.14, 0.14), TORCH, 2.0),
        (*CHORE, "G202", "G301", "G302", "G304"),
        at_line=True,
    ),
    Plant(
        "outputs-named-for-people",
        "named-outputs",
        _named,
        (*_READ, *CHORE),
        at_line=True,
    ),
    Plant(
        "past-stacked-again",
        "stacked-past",
        _placed(_PAST, (0.045, 0.00008), _QUEUED),
        ("G515", "G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "plan-balanced",
        "balanced-plans",
        _placed(_BALANCE, (8.0, 45.0), TORCH),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "returns-one-by-one",
        "returns",
        _placed(_RETURNS, (4.5, 30.0), TORCH),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "rows-looked-up-singly",
        "single-look-ups",
        _placed(_ROWS, (1.6, 7.0), TORCH),
        (*MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "values-told-apart",
        "distinct-values",
        _placed(_DIFFERENT, (0.03, 0.0005), TORCH),
        ("G307", *CHORE),
        at_line=True,
    ),
    Plant(
        "pictures-enlarged",
        "enlarged-pictures",
        _placed(_ENLARGED, (0.03, 0.0002), TORCH, 2.0),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "values-faded",
        "faded-values",
        _placed(_FADED, 0.012, TORCH),
        ("G506", *CHORE),
        devices=CPU,
        at_line=True,
    ),
    Plant(
        "rows-named-by-a-list",
        "listed-rows",
        _placed(_INDEXED, (0.5, 0.5), ""),
        ("G301", "G302", "G304", "G202", *CHORE),
        at_line=True,
    ),
    Plant("best-loss-compared", "compared-losses", _first, ("G305",), devices=CUDA, at_line=True),
    Plant(
        "entropy-for-the-log",
        "entropies",
        _placed(_ENTROPY, (1.2, 0.003), TORCH),
        ("G506", *CHORE),
        at_line=True,
    ),
    Plant(
        "picks-by-sums",
        "picks-by-sums",
        _placed(_SAMPLED, (0.32, 0.003), TORCH),
        ("G506", *CHORE),
        at_line=True,
    ),
)
