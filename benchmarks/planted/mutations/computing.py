"""Faults in what a step computes: tables, products, pairs, statistics of gradients."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import (
    Unit,
    amount,
    of_output,
)
from benchmarks.planted.mutations.plant import (
    CPU,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
    filled_in,
)
from benchmarks.planted.source import Change, Insertion

_SHARE: Final = 0.55  # of a healthy step
_MANY: Final = ("G201", "G202", "G506")
_CHORE: Final = ("G214", "G203")
_READ: Final = ("G305", "G307", "G308", "G202", "G201", "G214")
_TORCH: Final = "import torch as _torch\n"
_MOST: Final = 30_000_000  # elements of one tensor
_EACH_US: Final = 0.005, 0.00003  # an element of a square that is computed, on CPU and GPU
_GROWN_US: Final = 0.0012, 0.000005  # an element that is copied
_SORTED_US: Final = 0.05, 0.0004


def _side(site: Site, unit_us: Unit, power: float) -> str:
    """Give the side that makes a share of the step, no larger than memory has room for."""
    side = amount(site, unit_us, _SHARE) ** (1 / power)
    return str(max(4, int(min(side, _MOST ** (1 / min(power, 2.0))))))


def _sized(text: str, unit_us: Unit, top: str = "", power: float = 1.0) -> ChangeOf:
    """Put lines before the backward pass whose ``{n}`` costs a share of the step, by a power."""

    def change(site: Site) -> Sequence[Change] | None:
        side = _side(site, unit_us, power)
        return before_backward(text.replace("{n}", side), top.replace("{n}", side))(site)

    return change


def _placed(text: str, unit_us: Unit, top: str = "", power: float = 1.0) -> ChangeOf:
    """Put such lines behind the step, which know the device of the parameters."""

    def change(site: Site) -> Sequence[Change] | None:
        side = _side(site, unit_us, power)
        return after_step(text.replace("{n}", side), top.replace("{n}", side))(site)

    return change


def _apart(site: Site) -> Sequence[Change] | None:
    """Add how far outputs are from each other to the loss, pair by pair."""
    step = site.step
    if step is None or not step.loss.isidentifier():
        return None
    text = (
        "_chosen = {output}.float().flatten()[:64]\n"
        "for _pair in range({n}):\n"
        f"    {step.loss} = {step.loss} + 1e-12 * (\n"
        "        (_chosen[_pair % 7 % len(_chosen)] - _chosen[0]).pow(2)\n"
        "    )"
    )
    return of_output(text, (90.0, 300.0))(site)


def _noisy(site: Site) -> Sequence[Change] | None:
    """Add noise to gradients, one parameter after the other."""
    step = site.step
    if step is None or step.optimizer is None or "SparseAdam" in site.source.text:
        return None
    line = (step.backward.end_lineno or step.backward.lineno) + 1
    text = filled_in(_NOISE, site)
    return [at_top(site, _TORCH), Insertion(line, text, step.backward.col_offset)]


def _sorted(site: Site) -> Sequence[Change] | None:
    """Sort gradients for the value at which to cut them, where they are dense."""
    if "SparseAdam" in site.source.text:
        return None
    return _placed(_SORTED, _SORTED_US, _TORCH)(site)


_TABLE: Final = (
    "_places = _torch.arange(64, device={parameters}[0].device, dtype=_torch.float32)\n"
    "_waves = _torch.stack(\n"
    "    [_torch.sin(_places / 10000.0 ** (_at / {n})) for _at in range({n})], 1\n"
    ")"
)
_SPREAD: Final = (
    "_values = {parameters}[0].detach().flatten().float()\n"
    "_values = _values.repeat({n} // len(_values) + 1)[:{n}]\n"
    "_spread = (_values[:, None] - _values[None, :]).pow(2).mean()"
)
_DIAGONAL: Final = (
    "_scales = _torch.linspace(0.5, 1.5, {n}, device={parameters}[0].device)\n"
    "_scaled = _torch.diag(_scales) @ _torch.ones({n}, {n}, device=_scales.device)"
)
_ORDER: Final = (
    "_rows = _torch.ones({n}, {n}, device={parameters}[0].device)\n"
    "_projected = (_rows @ _rows.T) @ _rows[:, 0]"
)
_SORTED: Final = (
    "_given = [_p.grad.flatten() for _p in {parameters} if _p.grad is not None]\n"
    "_given = _torch.cat([*_given, _torch.linspace(0.0, 1.0, {n}).cos().to(_given[0])])\n"
    "_cut = _given[:{n}].abs().sort().values[int(0.9 * {n})]"
)
_CELLS: Final = (
    "_guesses = {output}.detach().float().flatten()[:64].tolist()\n"
    "_matrix = _torch.zeros(8, 8)\n"
    "for _at in range({n}):\n"
    "    _matrix[int(8 * abs(_guesses[_at % len(_guesses)])) % 8, _at % 8] += 1"
)
_ITERATED: Final = (
    "_outcome = {output}.detach().float().flatten()[:64].repeat(64)[:64]\n"
    "_total = sum(_value for _ in range({n}) for _value in _outcome)"
)
_ANEW: Final = (
    "_head = _torch.nn.Linear({n}, 64).to({parameters}[0].device)\n"
    "_logits = _head(_torch.ones(1, {n}, device={parameters}[0].device)).detach()"
)
_AGAIN: Final = (
    "_slopes = _torch.autograd.grad(\n"
    "    {loss}, [_p for _p in {parameters} if _p.requires_grad],"
    " retain_graph=True, allow_unused=True\n"
    ")"
)
_NOISE: Final = (
    "for _p in {parameters}:\n"
    "    if _p.grad is not None:\n"
    "        _p.grad = _p.grad + 0.0 * _torch.randn_like(_p.grad)"
)
_BANK: Final = (
    "_bank = _torch.linspace(-1.0, 1.0, {n} * 32, device={parameters}[0].device).view(-1, 32)\n"
    "_nearest = _torch.cdist(_bank[:64], _bank).topk(5, largest=False).indices"
)

PLANTS: Final = (
    Plant("pairs-in-a-loop", "pairwise-loops", _apart, (*_MANY, "G214"), at_line=True),
    Plant(
        "waves-made-again",
        "tables-recomputed",
        _placed(_TABLE, (8.0, 30.0), _TORCH),
        (*_MANY, *_CHORE),
        at_line=True,
    ),
    Plant(
        "spread-over-all-pairs",
        "broadcasting",
        _placed(_SPREAD, _EACH_US, "", 2.0),
        ("G506", *_CHORE),
        at_line=True,
    ),
    Plant(
        "diagonal-multiplied",
        "needless-products",
        _placed(_DIAGONAL, (0.0000125, 0.0000001), _TORCH, 3.0),
        ("G519", *_CHORE),
        at_line=True,
    ),
    Plant(
        "squares-before-vectors",
        "needless-products",
        _placed(_ORDER, (0.0000125, 0.0000001), _TORCH, 3.0),
        _CHORE,
        at_line=True,
    ),
    Plant(
        "gradients-sorted",
        "order-statistics",
        _sorted,
        ("G206", *_CHORE),
        at_line=True,
    ),
    Plant(
        "cells-counted-singly",
        "cells",
        of_output(_CELLS, 7.0, _TORCH),
        (*_READ, "G203"),
        at_line=True,
    ),
    Plant(
        "tensor-summed-by-python",
        "tensors-iterated",
        of_output(_ITERATED, (115.0, 500.0)),
        (*_READ, "G203", "G506"),
        at_line=True,
    ),
    Plant(
        "head-made-anew",
        "modules-anew",
        _placed(_ANEW, (0.28, 0.3), _TORCH),
        ("G202", "G302", "G301", *_CHORE),
        at_line=True,
    ),
    Plant(
        "slopes-taken-before",
        "gradients-again",
        before_backward(_AGAIN, _TORCH),
        ("G514", "G520", *_CHORE),
        at_line=True,
    ),
    Plant(
        "outcomes-appended",
        "growing-tensors",
        _sized(
            "_outcomes[0] = _torch.cat([_outcomes[0], _torch.zeros(1)])",
            _GROWN_US,
            "import torch as _torch\n_outcomes = [_torch.zeros({n})]\n",
        ),
        ("G515", *_CHORE),
        devices=CPU,
        at_line=True,
    ),
    Plant(
        "noise-on-gradients",
        "gradient-noise",
        _noisy,
        ("G206", "G216", "G207", "G204", *_MANY, *_CHORE),
        at_line=True,
    ),
    Plant(
        "bank-compared",
        "memory-banks",
        _placed(_BANK, (0.5, 0.002), _TORCH),
        _CHORE,
        at_line=True,
    ),
)
