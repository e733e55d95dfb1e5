"""Faults in how a model is given its batches: in parts, laid out anew."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import PYTHON, TORCH
from benchmarks.planted.mutations.parts import of_call
from benchmarks.planted.mutations.plant import CUDA, ChangeOf, Plant

_PARTED: Final = f"""{TORCH}

def _parted(model, *given):
    if len(given[0]) < 2 or any(len(_part) != len(given[0]) for _part in given):
        return model(*given)
    rows = zip(*(part.chunk(8) for part in given))
    return _torch.cat([model(*row) for row in rows])
"""
_LAID_OUT: Final = f"""{TORCH}

def _laid_out(model, first, *others):
    if first.dim() == 4:
        first = first.contiguous(memory_format=_torch.channels_last)
    return model(first, *others)
"""


def _called(name: str, top: str) -> ChangeOf:
    return of_call(f"{name}({{model}}, {{arguments}})", top)


PLANTS: Final = (
    Plant(
        "batches-in-eight",
        "parted-batches",
        _called("_parted", _PARTED),
        ("G218", "G201", *PYTHON),
        at_line=True,
    ),
    Plant(
        "pictures-laid-out",
        "laid-out-pictures",
        _called("_laid_out", _LAID_OUT),
        ("G504", "G506", *PYTHON),
        devices=CUDA,
        at_line=True,
    ),
)
