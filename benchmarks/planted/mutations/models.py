"""Faults in what is computed, forward and backward."""

import ast
from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import (
    amount,
    batch_of,
    before,
    of_call,
    of_model,
)
from benchmarks.planted.mutations.plant import (
    CUDA,
    ChangeOf,
    Plant,
    Site,
    at_top,
    before_backward,
    optimizers,
)
from benchmarks.planted.places import model_call
from benchmarks.planted.source import Change, Insertion, Replacement, method_call

_MANY_OPERATORS: Final = ("G201", "G202", "G506")
_CONVOLUTIONS: Final = ("Conv2d", "conv2d", "resnet", "ResNet", "DoubleConv")
_LOSSES: Final = ("nll_loss", "cross_entropy", "mse_loss", "binary_cross_entropy")
_LOSS_CLASSES: Final = ("CrossEntropyLoss()", "MSELoss()", "BCELoss()", "NLLLoss()", "L1Loss()")


_Growth = tuple[float, float]  # microseconds of a side of 64, power with which it grows


def _loss_in_pieces(site: Site) -> Sequence[Change] | None:
    """Compute the loss of a few samples at a time."""
    step = site.step
    if step is None or (step.function is None and step.loop is None):
        return None
    place = step.function or step.loop or site.source.tree
    calls = [node for node in ast.walk(place) if isinstance(node, ast.Call)]
    mine = [call for call in calls if _is_mean(site, call) and call.lineno <= step.backward.lineno]
    if not mine:
        return None
    call = max(mine, key=lambda call: call.lineno)
    given, wanted = (" ".join(site.source.segment(argument).split()) for argument in call.args)
    pieces = min(amount(site, (60.0, 140.0), least=2), max(2, batch_of(site)))
    function = site.source.segment(call.func)
    size = f"max(1, len({given}) // {pieces})"
    text = (
        f"_torch.stack([{function}(_one, _other) for _one, _other in"
        f" zip(({given}).split({size}), ({wanted}).split({size}))]).mean()"
    )
    return [at_top(site, "import torch as _torch\n"), Replacement(call, text)]


def _is_mean(site: Site, call: ast.Call) -> bool:
    """Say whether a call gives the mean loss of two tensors of one batch."""
    name = site.source.segment(call.func).rsplit(".", 1)[-1]
    pair = len(call.args) == len(("given", "wanted")) and not call.keywords
    if not pair or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    made = any(
        f"{name} = {prefix}{loss_class}" in site.source.text
        for prefix in ("nn.", "torch.nn.", "")
        for loss_class in _LOSS_CLASSES
    )
    return name in _LOSSES or made


def _taught(site: Site) -> Sequence[Change] | None:
    """Train along a copy of the model that nothing steps."""
    step = site.step
    hit = model_call(site.source, step) if step is not None else None
    if step is None or hit is None or not step.loss.isidentifier():
        return None
    call, model = hit[1], site.source.segment(hit[1].func)
    arguments = " ".join(site.source.segment(call).split())[len(model) :]
    text = (
        f"if not _teachers:\n"
        f"    _teachers.append(_copy.deepcopy({model}))\n"
        f"_taught = [_one for _one in _tree.tree_leaves(_teachers[0]{arguments})"
        " if getattr(_one, 'requires_grad', False)]\n"
        f"{step.loss} = {step.loss} + 0.0 * sum(_one.float().mean() for _one in _taught)"
    )
    top = "import copy as _copy\nfrom torch.utils import _pytree as _tree\n_teachers = []\n"
    return [
        at_top(site, top),
        Insertion(step.backward.lineno, text, step.backward.col_offset),
    ]


def _penalised(site: Site) -> Sequence[Change] | None:
    """Add penalties of all parameters to the loss, one after the other."""
    step = site.step
    if step is None or not step.loss.isidentifier():
        return None
    text = (
        f"{step.loss} = {step.loss} + 1e-12 * sum(\n"
        "    _p.pow(2).sum().sqrt() + _p.abs().mean() + (_p - _p.mean()).pow(2).mean()"
        " for _p in {parameters}\n)"
    )
    return before_backward(text)(site)


def _followed(site: Site) -> Sequence[Change] | None:
    """Ask for the gradient of what the model is given, where that are no numbers of words."""
    words = ("torchvision", "Conv", "Linear")
    text = site.source.text
    if any(word in text for word in ("vocab", "LongTensor")) or not any(
        word in text for word in words
    ):
        return None
    return of_call("{model}(*_followed({arguments}))", _INPUTS)(site)


def _differentiable(site: Site) -> Sequence[Change] | None:
    """Make the graph of the gradients, too."""
    step = site.step
    call = method_call(step.backward, "backward") if step is not None else None
    if (
        step is None
        or call is None
        or call.args
        or call.keywords
        or "zero_grad(" not in site.source.text
    ):
        return None
    return [Replacement(call, f"{site.source.segment(call.func)}(create_graph=True)")]


def _scaled(site: Site) -> Sequence[Change] | None:
    """Scale gradients though nothing is in half precision."""
    step = site.step
    if step is None or step.optimizer is None or "scaler" in site.source.text:
        return None
    backward, stepping = method_call(step.backward, "backward"), method_call(step.after, "step")
    if backward is None or stepping is None or backward.args or backward.keywords or stepping.args:
        return None
    top = "import torch as _torch\n_scaler = _torch.amp.GradScaler('cuda', init_scale=2.0)\n"
    line = (step.after.end_lineno or step.after.lineno) + 1
    indent = step.after.col_offset
    return [
        at_top(site, top),
        Replacement(backward, f"_scaler.scale({step.loss}).backward()"),
        Insertion(step.after.lineno, f"_scaler.unscale_({step.optimizer})", indent),
        Replacement(stepping, f"_scaler.step({step.optimizer})"),
        Insertion(line, "_scaler.update()\n_scale = _scaler.get_scale()", indent),
    ]


def _single_groups(site: Site) -> Sequence[Change] | None:
    """Give each parameter a group of its own."""
    changes: list[Change] = []
    for call in optimizers(site.source):
        if call.args and site.source.segment(call.args[0]).endswith("parameters()"):
            given = " ".join(site.source.segment(call.args[0]).split())
            changes.append(Replacement(call.args[0], f"[{{'params': [_p]}} for _p in {given}]"))
    return changes or None


def _decomposed(text: str, on_cpu: _Growth, on_gpu: _Growth) -> ChangeOf:
    """Decompose a matrix whose side makes a share of the step, given what 64 take and a power."""

    def change(site: Site) -> Sequence[Change] | None:
        unit_us, power = on_gpu if site.device == "cuda" else on_cpu
        wanted = amount(site, 1.0) / unit_us
        side = max(16, min(1024, int(64 * wanted ** (1 / power))))
        return before(text.replace("{side}", str(side)), 1.0, "import torch as _torch\n")(site)

    return change


_WHITENED: Final = (
    "_sample = _torch.linspace(-1.0, 1.0, {side} * {side}, device={parameters}[0].device).cos()\n"
    "_rows = _sample.view({side}, {side})\n"
    "_values, _vectors = _torch.linalg.eigh(_rows @ _rows.T + _torch.eye({side}).to(_rows))"
)
_SPECTRUM: Final = (
    "_widest = max({parameters}, key=lambda _p: _p.numel()).detach().flatten().float()\n"
    "_tiled = _widest.repeat({side} * {side} // len(_widest) + 1)[: {side} * {side}]\n"
    "_spectrum = _torch.linalg.svdvals(_tiled.view({side}, {side}))"
)
_CHECKPOINT: Final = "from torch.utils.checkpoint import checkpoint as _checkpoint\n"
_PADDING: Final = """import torch as _torch
from torch.utils import _pytree as _tree


def _padded(model, batch):
    filled = _torch.cat([batch, _torch.zeros_like(batch)])
    return _tree.tree_map(lambda one: one[: len(one) // 2], model(filled))
"""
_LAYOUTS: Final = """import torch as _torch
_turned = []


def _last(module, given):
    return (given[0].contiguous(memory_format=_torch.channels_last), *given[1:])


def _first(module, given, output):
    return output.contiguous(memory_format=_torch.contiguous_format)
"""
_TURNING: Final = (
    "if not _turned:\n"
    "    _turned.append(True)\n"
    "    for _module in {model}.modules():\n"
    "        if isinstance(_module, _torch.nn.Conv2d):\n"
    "            _module.register_forward_pre_hook(_last)\n"
    "            _module.register_forward_hook(_first)"
)
_INPUTS: Final = """import torch as _torch


def _followed(*given):
    return [
        one.detach().requires_grad_() if one.is_floating_point() and one.is_leaf else one
        for one in given
    ]
"""

PLANTS: Final = (
    Plant(
        "loss-in-pieces",
        "loss-pieces",
        _loss_in_pieces,
        ("G201", "G202"),
        at_line=True,
    ),
    Plant(
        "taught-in-vain",
        "needless-training",
        _taught,
        ("G513", "G514", "G517", "G214"),
        at_line=True,
    ),
    Plant(
        "inputs-followed",
        "needless-training",
        _followed,
        ("G513", "G514"),
        at_line=True,
    ),
    Plant(
        "penalties-summed",
        "penalties",
        _penalised,
        ("G206", "G214", *_MANY_OPERATORS),
        at_line=True,
    ),
    Plant(
        "graph-of-gradients",
        "gradient-graphs",
        _differentiable,
        ("G402", "G403", "G506", "G514", *_MANY_OPERATORS),
        at_line=True,
    ),
    Plant(
        "scaled-in-full-precision",
        "scaling",
        _scaled,
        ("G309", "G305", "G501", "G502"),
        ("bf16", "fp16"),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "groups-of-one",
        "single-groups",
        _single_groups,
        ("G204", "G205", "G201", "G202"),
        ("foreach", "fused"),
        "optimizer",
        CUDA,
    ),
    Plant(
        "whitened-each-step",
        "decompositions",
        _decomposed(_WHITENED, (500.0, 2.4), (1500.0, 1.5)),
        ("G516", "G203", "G214"),
        at_line=True,
    ),
    Plant(
        "spectrum-each-step",
        "decompositions",
        _decomposed(_SPECTRUM, (180.0, 2.4), (2500.0, 1.5)),
        ("G516", "G203", "G214"),
        at_line=True,
    ),
    Plant(
        "computed-again",
        "recomputing",
        of_call("_checkpoint({model}, {arguments}, use_reentrant=False)", _CHECKPOINT),
        ("G404",),
        ("checkpointing-off",),
        at_line=True,
    ),
    Plant(
        "filled-up-batches",
        "filling-up",
        of_call("_padded({model}, {arguments})", _PADDING, single=True),
        ("G510", "G514"),
        at_line=True,
    ),
    Plant(
        "layouts-turned",
        "layouts",
        of_model(_TURNING, _LAYOUTS, words=_CONVOLUTIONS),
        ("G504", "G506", "G508", "G214"),
        ("channels-last",),
        devices=CUDA,
        at_line=True,
    ),
)
