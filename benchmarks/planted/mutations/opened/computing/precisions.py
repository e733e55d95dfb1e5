"""Faults that hold for a whole run or model: doubles, second looks."""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations.parts import of_call
from benchmarks.planted.mutations.plant import ChangeOf, Plant, Site, at_top
from benchmarks.planted.source import Change

_DOUBLED: Final = "import torch as _torch\n_torch.set_default_dtype(_torch.float64)\n"
_SINGLE: Final = ("float()", "FloatTensor", "float32", "torch.Tensor(")
_TWICE: Final = """import torch as _torch


def _twice(model, *given):
    first = given[0]
    moved = first + 0.01 * _torch.randn_like(first) if first.is_floating_point() else first.flip(0)
    with _torch.no_grad():
        model(moved, *given[1:])
    return model(*given)
"""
_SHOWN: Final = """import torch as _torch


def _shown(model, *given):
    seen = given[0].detach()
    seen = seen.requires_grad_() if seen.is_floating_point() else seen
    answer = model(seen, *given[1:])
    answer = answer[0] if isinstance(answer, (tuple, list)) else answer
    into = [seen] if seen.requires_grad else list(model.parameters())
    slopes = _torch.autograd.grad(answer.sum(), into, allow_unused=True)
    return model(*given)
"""
_RECKONED: Final = ("G517", "G520", "G514", "G214", "G219")


def _double(site: Site) -> Sequence[Change] | None:
    if site.step is None or any(word in site.source.text for word in _SINGLE):
        return None
    return [at_top(site, _DOUBLED)]


def _called(name: str, top: str) -> ChangeOf:
    return of_call(f"{name}({{model}}, {{arguments}})", top)


PLANTS: Final = (
    Plant("all-in-doubles", "double-defaults", _double, ("G503",), (), "any", at_line=True),
    Plant("looked-twice", "second-looks", _called("_twice", _TWICE), _RECKONED, at_line=True),
    Plant("shown-by-slopes", "shown-slopes", _called("_shown", _SHOWN), _RECKONED, at_line=True),
)
