"""Faults in models, optimizers and how they run."""

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
    of_call,
    of_model,
    top_where,
)
from benchmarks.planted.mutations.plant import (
    CPU,
    CUDA,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
)
from benchmarks.planted.source import Change, Insertion

_SHARE: Final = 0.5  # of a healthy step


def _on_model(text: str, unit_us: Unit, top: str) -> ChangeOf:
    """Put lines before the model's call that look ``{n}`` times at ``{model}``."""

    def change(site: Site) -> Sequence[Change] | None:
        number = str(amount(site, unit_us, _SHARE))
        return of_model(text.replace("{n}", number), top)(site)

    return change


def _reloaded(site: Site) -> Sequence[Change] | None:
    """Keep the optimizer's state, and give it back, as if a step were to be undone."""
    step = site.step
    if step is None or step.optimizer is None:
        return None
    line = (step.backward.end_lineno or step.backward.lineno) + 1
    text = (
        f"_undo = _copy.deepcopy({step.optimizer}.state_dict())\n"
        f"{step.optimizer}.load_state_dict(_undo)"
    )
    return [
        at_top(site, "import copy as _copy\n"),
        Insertion(line, text, step.backward.col_offset),
    ]


_UNFOLDED: Final = """import torch as _torch
_convolved = _torch.nn.functional.conv2d


def _by_hand(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if groups != 1 or isinstance(padding, str):
        return _convolved(x, weight, bias, stride, padding, dilation, groups)
    size = weight.shape[-2:]
    pieces = _torch.nn.functional.unfold(x, size, dilation, padding, stride)
    y = weight.flatten(1) @ pieces
    settings = (padding, dilation, stride)
    pairs = [value if isinstance(value, tuple) else (value,) * 2 for value in settings]
    sides = [
        (side + 2 * pad - spread * (kernel - 1) - 1) // jump + 1
        for side, kernel, pad, spread, jump in zip(x.shape[-2:], size, *pairs)
    ]
    y = y.unflatten(-1, sides)
    return y if bias is None else y + bias.view(-1, 1, 1)


_torch.nn.functional.conv2d = _by_hand
"""
_COUNTED: Final = """from torch.utils.flop_counter import FlopCounterMode as _Flops
_flops = _Flops(display=False)
_flops.__enter__()
"""
_SAVED: Final = """import torch as _torch


def _sparing(model, *given):
    with _torch.autograd.graph.save_on_cpu():
        return model(*given)
"""
_WALKED: Final = (
    "for _ in range({n}):\n"
    "    {model}.apply(\n"
    "        lambda module: module.train(module.training)\n"
    "        if isinstance(module, _torch.nn.Module) else None\n"
    "    )"
)
_DECAYED: Final = (
    "for _ in range({n}):\n"
    "    _decayed = [\n"
    "        name for name, weight in {model}.named_parameters()\n"
    "        if weight.requires_grad and not _re.search(r'(bias|norm.*weight)$', name)\n"
    "    ]"
)
_ROUNDED: Final = (
    "for _p in {parameters}:\n"
    "    _scale = _p.detach().abs().amax() + 1e-8\n"
    "    _quantised = (_p.detach() / _scale * 127).round().clamp(-127, 127) * _scale / 127\n"
    "    _loss_of_bits = (_p.detach() - _quantised).pow(2).mean()"
)
_ONE_CORE: Final = """import os as _os
_os.sched_setaffinity(0, {min(_os.sched_getaffinity(0))})
"""

PLANTS: Final = (
    Plant(
        "convolutions-unfolded",
        "unfolded-convolutions",
        top_where(
            _UNFOLDED,
            (
                "Conv2d(",
                "densenet",
                "CapsNet",
                "SmallCNN",
                "VQVAE",
                "Convnet",
                "CNN",
                "vgg",
                "define_G",
            ),
        ),
        (*MANY, "G219"),
        at_line=True,
    ),
    Plant(
        "operations-counted",
        "counted-operations",
        top_where(_COUNTED, ()),
        ("G202", "G212", "G201"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
    Plant(
        "activations-parked",
        "parked-activations",
        of_call("_sparing({model}, {arguments})", _SAVED),
        ("G301", "G302", "G303", "G308", "G404"),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "modules-walked-through",
        "module-walks",
        _on_model(_WALKED, 15.0, TORCH),
        ("G202", *CHORE),
        at_line=True,
    ),
    Plant(
        "names-matched-again",
        "name-matching",
        _on_model(_DECAYED, 6.0, "import re as _re\n"),
        ("G202", *CHORE),
        at_line=True,
    ),
    Plant(
        "weights-rounded-for-show",
        "rounded-weights",
        after_step(_ROUNDED),
        ("G204", "G206", "G207", "G216", *MANY, *CHORE),
        at_line=True,
    ),
    Plant(
        "one-core-for-all",
        "narrow-affinity",
        top_where(_ONE_CORE, ()),
        ("G113", "G116", "G103"),
        ("affinity", "one-thread", "intra-op-threads"),
        "any",
        CPU,
        at_line=True,
    ),
    Plant(
        "optimizer-undone",
        "undone-steps",
        _reloaded,
        ("G202", "G204", "G701", *CHORE),
        at_line=True,
    ),
)
