"""Faults and decoys of the unseen half: whoever changes rules does not read this file.

They are written by somebody who knows the titles of the causes and nothing else of the rules. Once
their answers have been read they move into the files beside this one, and others take their place.
"""

from collections.abc import Sequence
from typing import Final

from benchmarks.planted.mutations import sealed_chores, sealed_items, sealed_models
from benchmarks.planted.mutations.parts import of_call, top_where
from benchmarks.planted.mutations.plant import (
    BOTH,
    CPU,
    CUDA,
    DECOY,
    ChangeOf,
    Plant,
    Site,
    after_step,
    at_top,
    before_backward,
)
from benchmarks.planted.places import loaders, with_keywords
from benchmarks.planted.source import Change

_MANY: Final = ("G201", "G202", "G506")
_TORCH: Final = "import torch as _torch\n"
_NAMED: Final = """import torch as _torch


def _named(model, *given):
    with _torch.autograd.profiler.record_function("planted"):
        return model(*given)
"""
_SEEDED: Final = """def _begun(worker):
    return None
"""
_SWITCHED: Final = """import os as _os
_DEBUGGED = _os.environ.get("PLANTED_DEBUG") == "1"
"""
_GUARDED: Final = """if _DEBUGGED:
    print([float(_p.grad.norm()) for _p in {parameters} if _p.grad is not None])"""
_POOL: Final = """from concurrent.futures import ThreadPoolExecutor as _Executor
_writers = _Executor(max_workers=8)
"""
_SPARE: Final = """import torch as _torch
_spare = _torch.nn.Sequential(_torch.nn.Linear(64, 64), _torch.nn.ReLU())
_spare_optimizer = _torch.optim.SGD(_spare.parameters(), lr=0.1)
"""


def _begun(site: Site) -> Sequence[Change] | None:
    """Have workers call what does nothing."""
    calls = loaders(site.source)
    if not calls:
        return None
    keywords = with_keywords(site.source, calls[0], {"worker_init_fn": "_begun"})
    return [at_top(site, _SEEDED), keywords]


_DECOYS: Final[tuple[tuple[str, ChangeOf, tuple[str, ...]], ...]] = (
    (
        "stop-file",
        after_step("_stopped = _os.path.exists('planted.stop')", "import os as _os\n"),
        BOTH,
    ),
    ("no-sleep", before_backward("_time.sleep(0)", "import time as _time\n"), BOTH),
    ("named-forward", of_call("_named({model}, {arguments})", _NAMED), BOTH),
    (
        "imported-in-step",
        before_backward("import json as _json\nimport torch.profiler as _profiler"),
        BOTH,
    ),
    ("collector-frozen", top_where("import gc as _gc\n_gc.freeze()\n", ()), BOTH),
    ("workers-begun", _begun, BOTH),
    ("debugged-never", after_step(_GUARDED, _SWITCHED), BOTH),
    ("cache-of-none", after_step("_torch.cuda.empty_cache()", "import torch as _torch\n"), CPU),
    ("idle-pool", top_where(_POOL, ()), BOTH),
    ("spare-model", top_where(_SPARE, ()), BOTH),
    (
        "numbers-drawn",
        before_backward(
            "_drawn = _chance.random()", "import random as _random\n_chance = _random.Random(1)\n"
        ),
        BOTH,
    ),
    (
        "closed-context",
        before_backward(
            "with _contextlib.suppress(KeyError), _torch.no_grad():\n"
            "    _finite = {loss}.detach().isfinite()",
            "import contextlib as _contextlib\nimport torch as _torch\n",
        ),
        BOTH,
    ),
    (
        "signals-handled",
        top_where(
            "import signal as _signal\n_signal.signal(_signal.SIGUSR1, lambda *_: None)\n", ()
        ),
        BOTH,
    ),
)
_ACTIVATIONS: Final = """import torch as _torch


def _rectified(x, inplace=False):
    return x * (x > 0)


def _gated(x, approximate="none"):
    return x * _torch.sigmoid(1.702 * x)


def _normalised(x, dim=None, _stacklevel=3, dtype=None):
    raised = _torch.exp(x - x.amax(dim, keepdim=True))
    return raised / raised.sum(dim, keepdim=True)


_torch.nn.functional.relu = _rectified
_torch.nn.functional.gelu = _gated
_torch.nn.functional.softmax = _normalised
"""
_USES: Final = ("relu(", "ReLU(", "gelu(", "GELU(", "resnet", "Transformer", "BERT", "ViT")
_PIECES: Final = """import torch as _torch
_whole = _torch.nn.functional.linear


def _in_pieces(x, weight, bias=None):
    pieces = weight.split(max(1, -(-len(weight) // 3)))
    y = _torch.cat([_whole(x, piece) for piece in pieces], -1)
    return y if bias is None else y + bias


_torch.nn.functional.linear = _in_pieces
"""
_HALVED: Final = """import torch as _torch
from torch.utils import _pytree as _tree


def _halved(model, *given):
    with _torch.autocast("cpu", dtype=_torch.bfloat16):
        output = model(*given)
    return _tree.tree_map(lambda one: one.float() if hasattr(one, "float") else one, output)
"""
_TIMED: Final = (
    "_begun, _ended = (_torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
    "_begun.record()\n"
    "_ended.record()\n"
    "_ended.synchronize()\n"
    "_elapsed = _begun.elapsed_time(_ended)"
)
_PROFILED: Final = """import cProfile as _profile
_calls = _profile.Profile()
_calls.enable()
"""
_TRACED: Final = """import tracemalloc as _tracemalloc
_tracemalloc.start(20)
"""
_SWITCHES: Final = (
    Plant(
        "activations-by-hand",
        "activations-by-hand",
        top_where(_ACTIVATIONS, _USES),
        _MANY,
        at_line=True,
    ),
    Plant(
        "products-in-pieces",
        "products-in-pieces",
        top_where(_PIECES, ("Linear(", "BERT", "SASRec", "ViT", "MADE")),
        _MANY,
        at_line=True,
    ),
    Plant(
        "halved-on-processors",
        "half-emulated",
        of_call("_halved({model}, {arguments})", _HALVED),
        ("G512", "G508"),
        devices=CPU,
        at_line=True,
    ),
    Plant(
        "one-thread-of-two",
        "lone-thread",
        top_where("import torch as _torch\n_torch.set_num_threads(1)\n", ()),
        ("G116",),
        ("intra-op-threads",),
        "any",
        CPU,
        at_line=True,
    ),
    Plant(
        "timed-by-events",
        "timing-events",
        before_backward(_TIMED, _TORCH),
        ("G306", "G305"),
        ("no-synchronize",),
        devices=CUDA,
        at_line=True,
    ),
    Plant(
        "python-profiled",
        "python-tracing",
        top_where(_PROFILED, ()),
        ("G202", "G212"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
    Plant(
        "allocations-traced",
        "python-tracing",
        top_where(_TRACED, ()),
        ("G202", "G212"),
        ("debug-off",),
        "any",
        at_line=True,
    ),
)
PLANTS: Final[tuple[Plant, ...]] = (
    *_SWITCHES,
    *sealed_items.PLANTS,
    *sealed_chores.PLANTS,
    *sealed_models.PLANTS,
)
HARMLESS: Final[tuple[Plant, ...]] = tuple(
    Plant(f"decoy-{name}", DECOY, change, devices=devices) for name, change, devices in _DECOYS
)
