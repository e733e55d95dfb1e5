"""Faults within the step: reading back, work of the training thread, loops, the optimizer."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.plant import (
    CUDA,
    Plant,
    Site,
    after_step,
    before_backward,
    optimizers,
)
from benchmarks.planted.places import model_call, with_keywords
from benchmarks.planted.source import Change, Insertion, Replacement

_READ: Final = ("G305", "G307", "G308", "G202", "G201", "G214", "G306")
_PYTHON: Final = ("G202", "G203", "G214")


def _loops_of_parameters(site: Site) -> Sequence[Change] | None:
    """Ask for the loop over parameters where torch would take many at once."""
    calls = [call for call in optimizers(site.source) if "foreach" not in site.source.segment(call)]
    changes: list[Change] = []
    for call in calls:
        fused = {"fused": "False"} if "fused=True" in site.source.segment(call) else {}
        changes.append(with_keywords(site.source, call, {"foreach": "False"} | fused))
    return changes or None


def _averaged(site: Site) -> Sequence[Change] | None:
    """Keep a moving average of all parameters, one by one."""
    text = (
        "for _parameter in {parameters}:\n"
        "    _mean = _means.setdefault(_parameter, _parameter.detach().clone())\n"
        "    _mean.mul_(0.99).add_(_parameter.detach(), alpha=0.01)"
    )
    return after_step(text, "_means = {}\n")(site)


def _twice(site: Site) -> Sequence[Change] | None:
    """Run the model once more, for an output that nobody uses."""
    step = site.step
    hit = model_call(site.source, step) if step is not None else None
    if hit is None:
        return None
    statement, call = hit
    text = f"_again = {' '.join(site.source.segment(call).split())}"
    return [Insertion(statement.lineno, text, statement.col_offset)]


def _one_by_one(site: Site) -> Sequence[Change] | None:
    """Give the model one sample after the other."""
    step = site.step
    hit = model_call(site.source, step) if step is not None else None
    if hit is None or len(hit[1].args) != 1 or hit[1].keywords:
        return None
    call = hit[1]
    argument = site.source.segment(call.args[0])
    if argument.startswith("*") or "\n" in argument:
        return None
    function = site.source.segment(call.func)
    pieces = f"({argument}).split(max(1, len({argument}) // 16))"
    if "import torch" not in site.source.text:
        return None
    return [Replacement(call, f"torch.cat([{function}(_piece) for _piece in {pieces}])")]


_COPIES: Final = (
    "_sample = [_parameter.detach().to('cpu') for _parameter in {parameters}]\n"
    "_sample = [_value.to(_parameter.device) for _value, _parameter in"
    " zip(_sample, {parameters})]"
)

PLANTS: Final = (
    Plant(
        "gradient-norms-read",
        "reading-back",
        after_step(
            "_norms = [_parameter.grad.norm().item() for _parameter in {parameters}"
            " if _parameter.grad is not None]"
        ),
        (*_READ, "G206"),
        (),
        at_line=True,
    ),
    Plant(
        "checked-for-nan",
        "reading-back",
        after_step("assert not any(bool(_parameter.isnan().any()) for _parameter in {parameters})"),
        _READ,
        at_line=True,
    ),
    Plant(
        "loss-read-each-step",
        "reading-back",
        before_backward("_loss_value = float({loss})"),
        _READ,
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "synchronized",
        "synchronizing",
        before_backward("import torch as _torch\n_torch.cuda.synchronize()"),
        ("G306",),
        ("no-synchronize",),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "parameters-copied-back",
        "blocking-copies",
        after_step(_COPIES),
        ("G301", "G302", "G304", "G308", "G303", "G202"),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "python-loop",
        "training-thread",
        before_backward("assert sum(i * i for i in range({turns})) >= 0"),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "arrays-prepared",
        "training-thread",
        before_backward(
            "_stop = _time.perf_counter() + {seconds}\n"
            "while _time.perf_counter() < _stop:\n"
            "    _numpy.sort(_numpy.random.default_rng(1).random(20000))",
            "import time as _time\nimport numpy as _numpy\n",
        ),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "tokens-counted",
        "training-thread",
        before_backward(
            "_words = [_collections.Counter(str(i) + 'planted') for i in range({turns} // 60)]",
            "import collections as _collections\n",
        ),
        _PYTHON,
        at_line=True,
    ),
    Plant(
        "sleep-in-step",
        "waiting",
        before_backward("_time.sleep({sleep})", "import time as _time\n"),
        (*_PYTHON, "G804"),
        at_line=True,
    ),
    Plant(
        "optimizer-loop",
        "parameter-loops",
        _loops_of_parameters,
        ("G204", "G205"),
        ("foreach", "fused"),
        "optimizer",
        CUDA,
    ),
    Plant(
        "averaged-one-by-one",
        "parameter-loops",
        _averaged,
        ("G207", "G202", "G201", "G214"),
        at_line=True,
    ),
    Plant(
        "clipped-one-by-one",
        "parameter-loops",
        after_step(
            "for _parameter in {parameters}:\n"
            "    if _parameter.grad is not None:\n"
            "        _parameter.grad.mul_((1.0 / (_parameter.grad.norm() + 1e-6)).clamp(max=1.0))"
        ),
        ("G206", "G202", "G201", "G214"),
        at_line=True,
    ),
    Plant("forward-twice", "unused-work", _twice, ("G513", "G514", "G214"), at_line=True),
    Plant(
        "statistics-unused",
        "unused-work",
        after_step(
            "_statistics = [(_parameter.detach().std(), _parameter.detach().abs().mean())"
            " for _parameter in {parameters} for _ in range(3) if _parameter.numel() > 1]"
        ),
        ("G514", "G214", "G202", "G201"),
        at_line=True,
    ),
    Plant(
        "one-by-one",
        "piecewise",
        _one_by_one,
        ("G201", "G202"),
        at_line=True,
    ),
)
