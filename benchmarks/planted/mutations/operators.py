"""Faults in operators written by hand, and in libraries."""

from typing import Final

from benchmarks.planted.mutations.parts import top_where
from benchmarks.planted.mutations.plant import CPU, CUDA, Plant

_MANY_OPERATORS: Final = ("G201", "G202", "G506")
_CONVOLUTIONS: Final = ("Conv2d", "conv2d", "resnet", "ResNet", "DoubleConv")

_LOOKUP: Final = """import torch as _torch


def _looked_up(indices, table, *_options, **_named):
    chosen = _torch.nn.functional.one_hot(indices, table.shape[0]).to(table.dtype)
    return chosen @ table


_torch.nn.functional.embedding = _looked_up
"""
_BATCH_NORM: Final = """import torch as _torch


def _normed(x, mean, variance, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims = [0, *range(2, x.dim())]
    shape = [1, -1, *[1] * (x.dim() - 2)]
    if training or mean is None:
        own = x.mean(dims)
        spread = ((x - own.view(shape)) ** 2).mean(dims)
        if mean is not None:
            mean.lerp_(own.detach().to(mean), momentum or 0.1)
            variance.lerp_(spread.detach().to(variance), momentum or 0.1)
    else:
        own, spread = mean, variance
    x = (x - own.view(shape)) / _torch.sqrt(spread.view(shape) + eps)
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


_torch.nn.functional.batch_norm = _normed
"""
_LAYER_NORM: Final = """import torch as _torch


def _normed(x, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(shape), 0))
    own = x.mean(dims, keepdim=True)
    spread = ((x - own) ** 2).mean(dims, keepdim=True)
    x = (x - own) / _torch.sqrt(spread + eps)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


_torch.nn.functional.layer_norm = _normed
"""
_DROPOUT: Final = """import numpy as _numpy
import torch as _torch
_chance = _numpy.random.default_rng(1)


def _dropped(x, p=0.5, training=True, inplace=False):
    if not training or p == 0.0:
        return x
    mask = _torch.from_numpy(_chance.binomial(1, 1.0 - p, tuple(x.shape)))
    return x * mask.to(x.device, x.dtype) / (1.0 - p)


_torch.nn.functional.dropout = _dropped
"""

PLANTS: Final = (
    Plant(
        "table-times-one-hot",
        "one-hot-products",
        top_where(_LOOKUP, ("Embedding",)),
        ("G511", "G506", "G202", "G509"),
        at_line=True,
    ),
    Plant(
        "batches-normed-by-hand",
        "norms-by-hand",
        top_where(_BATCH_NORM, ("BatchNorm", "resnet", "ResNet")),
        _MANY_OPERATORS,
        at_line=True,
    ),
    Plant(
        "layers-normed-by-hand",
        "norms-by-hand",
        top_where(_LAYER_NORM, ("LayerNorm", "layer_norm", "Transformer")),
        _MANY_OPERATORS,
        at_line=True,
    ),
    Plant(
        "dropped-on-host",
        "masks-on-host",
        top_where(_DROPOUT, ("Dropout(", "dropout(")),
        ("G203", "G202", "G301", "G302", "G304", "G506"),
        at_line=True,
    ),
    Plant(
        "deterministic",
        "reproducing",
        top_where(
            "import torch as _torch\n"
            "_torch.use_deterministic_algorithms(True, warn_only=True)\n"
            "_torch.backends.cudnn.deterministic = True\n",
            (),
        ),
        ("G211", "G507"),
        ("debug-off", "cudnn-benchmark"),
        "any",
        CUDA,
        at_line=True,
    ),
    Plant(
        "library-off-gpu",
        "libraries-off",
        top_where(
            "import torch as _torch\n_torch.backends.cudnn.enabled = False\n",
            (*_CONVOLUTIONS, "LSTM", "GRU", "RNN"),
        ),
        ("G507", "G201", "G504"),
        ("cudnn-benchmark",),
        "any",
        CUDA,
        at_line=True,
    ),
    Plant(
        "library-off",
        "libraries-off",
        top_where(
            "import torch as _torch\n_torch.backends.mkldnn.enabled = False\n", _CONVOLUTIONS
        ),
        ("G504", "G507", "G501"),
        (),
        "any",
        CPU,
        at_line=True,
    ),
)
