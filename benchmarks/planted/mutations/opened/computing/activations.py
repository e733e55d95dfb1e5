"""Faults in how activations are kept and batches are stacked."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import PYTHON, TORCH
from benchmarks.planted.mutations.parts import of_call
from benchmarks.planted.mutations.plant import CUDA, Plant

_HALVES: Final = f"""{TORCH}

def _put_by(kept):
    return (kept.half(), True) if kept.dtype == _torch.float32 else (kept, False)


def _take_up(pair):
    return pair[0].float() if pair[1] else pair[0]


def _in_halves(model, *given):
    with _torch.autograd.graph.saved_tensors_hooks(_put_by, _take_up):
        return model(*given)
"""
_ROWS: Final = f"""{TORCH}

def _by_rows(model, first, *others):
    if first.dim() == 4:
        first = _torch.stack([_torch.stack(list(one.unbind(1)), 1) for one in first.unbind(0)])
    return model(first, *others)
"""

PLANTS: Final = (
    Plant(
        "kept-in-halves",
        "halved-activations",
        of_call("_in_halves({model}, {arguments})", _HALVES),
        ("G501", "G502", "G503", "G506", "G509", "G204", "G201", *PYTHON),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "pictures-put-together",
        "restacked-pictures",
        of_call("_by_rows({model}, {arguments})", _ROWS),
        ("G201", "G206", "G207", "G506", *PYTHON),
        at_line=True,
    ),
)
