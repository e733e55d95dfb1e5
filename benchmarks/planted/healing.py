"""Mend what many scripts of others have in common, so that a control is as healthy as it can be.

A training of which a third goes to transforms in its own process, or to an optimizer that takes
parameter after parameter, is no sound case, and a smaller fault planted in it is not what it
should hear of first. So samples are made once, before the first batch, in loaders with workers,
too: a lane's few processors do not decode for a GPU, and without one workers take the processors
that the training computes on (``standins/prepared_samples.py``). Optimizers that can be fused are.
"""

import ast
from typing import Final

from benchmarks.planted.mutations.plant import optimizers
from benchmarks.planted.places import loaders, with_keywords
from benchmarks.planted.source import Change, Insertion, Replacement, apply, header, parse

_FUSED: Final = ("Adam", "AdamW", "SGD", "Adagrad")
_UNLESS: Final = ("fused", "foreach", "capturable", "differentiable", "**")
_MODULE: Final = "prepared_samples"
_MAKER: Final = "prepared"


def heal_script(text: str) -> str:
    """Return a script with fused optimizers, and with samples that are made once."""
    source = parse(text)
    changes: list[Change] = [
        with_keywords(source, call, {"fused": "True"})
        for call in optimizers(source)
        if source.segment(call.func).rsplit(".", 1)[-1] in _FUSED
        and not any(word in source.segment(call) for word in _UNLESS)
    ]
    samples = [
        replacement for call in loaders(source) if (replacement := _wrap_dataset(call)) is not None
    ]
    if samples:
        changes += [Insertion(header(source), f"from {_MODULE} import {_MAKER}"), *samples]
    return apply(source, changes).text if changes else text


def _wrap_dataset(call: ast.Call) -> Replacement | None:
    """Wrap the data set of a loader."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "dataset"]
    data = (call.args or named)[0] if call.args or named else None
    if data is None or isinstance(data, ast.Starred):
        return None
    return Replacement(data, f"{_MAKER}({ast.unparse(data)})")
