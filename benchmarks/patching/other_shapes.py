"""Shapes of what is not a loader: optimizers, settings, variables, models, copies, calls."""

from typing import Final

from benchmarks.patching.shape import LOADER, Shape, train
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap

_SGD: Final = "torch.optim.SGD"
_FUSED: Final[tuple[Edit, ...]] = (
    SetArgument(_SGD, "fused", value=True),
    SetArgument(_SGD, "foreach", value=False),
)
_BENCHMARK: Final = (SetGlobal("torch.backends.cudnn.benchmark", value=True),)
_PRECISION: Final = (SetGlobal("torch.set_float32_matmul_precision", "high"),)
_THREADS: Final = (SetGlobal("torch.set_num_threads", 1),)
_VARIABLE: Final = (SetEnv("PYTORCH_ALLOC_CONF", "expandable_segments:True"),)
_EMPTY: Final = (Skip("torch.cuda.empty_cache"),)
_ZERO: Final = (
    SetArgument("torch.optim.Optimizer.zero_grad", "set_to_none", value=True),
    SetArgument("torch.nn.Module.zero_grad", "set_to_none", value=True),
)
_CHANNELS: Final = (Wrap("torch.nn.Module", "channels-last"),)
_COMPILE: Final = (Wrap("torch.nn.Module", "compile", {"mode": None, "backend": "eager"}),)
_COPIES: Final = (Wrap("torch.Tensor.to", "non-blocking"),)
_PREFETCH: Final = (Wrap(LOADER, "device-prefetcher", {"ahead": 1}),)
_KEEP: Final = (Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off"),)
_IMPORTS: Final = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
_HEAD: Final = '"""A training."""\n\nfrom __future__ import annotations\n\nimport sys\n' + _IMPORTS
_LINEAR: Final = "model = torch.nn.Linear(4, 1)\n"
_IMAGES: Final = (
    "model = torch.nn.Sequential(torch.nn.Unflatten(1, (4, 1, 1)), torch.nn.Conv2d(4, 8, 1),\n"
    "                            torch.nn.Flatten(), torch.nn.Linear(8, 1))\n"
)
_LOOP: Final = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
for x, y in loader:
    x = x.to(device)
    y = y.to(device)
    opt.zero_grad(set_to_none=False)
    if len(x) > 2:
        torch.cuda.empty_cache()
    torch.nn.functional.mse_loss(model(x), y).backward()
    opt.step(); torch.cuda.empty_cache()
    torch.cuda.empty_cache()  # as ever
"""
_TRAIN: Final = train(loop=_LOOP)
_CHECKPOINT: Final = train(
    imports=_IMPORTS + "from torch.utils.checkpoint import checkpoint\n",
    loop="\nfor x, y in loader:\n    loss = checkpoint(model, x, use_reentrant=False).sum()\n"
    "    loss.backward()\n    opt.step()\n",
)


def _script(name: str, text: str, edits: tuple[Edit, ...], at: str | None = None) -> Shape:
    return Shape(name, {"train.py": text}, edits, at)


def _refused(name: str, text: str, edits: tuple[Edit, ...], reason: str) -> Shape:
    return Shape(name, {"train.py": text}, edits, refused=reason)


def _optimizer(name: str, line: str, at: str = "SGD(", imports: str = _IMPORTS) -> Shape:
    return _script(name, train(optimizer=line, imports=imports), _FUSED, at)


OPTIMIZERS: Final = (
    _optimizer("a fused optimizer", "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"),
    _optimizer(
        "an optimizer by its module",
        "opt = optim.SGD(model.parameters(), 0.1)\n",
        imports=_IMPORTS + "from torch import optim\n",
    ),
    _optimizer(
        "an optimizer with the flag",
        "opt = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)\n",
    ),
    _optimizer(
        "a generator of parameters", "opt = torch.optim.SGD(p for p in model.parameters())\n"
    ),
    _optimizer(
        "a conditional optimizer class",
        "opt = (torch.optim.SGD if len(ds) else torch.optim.Adam)(model.parameters(), lr=0.1)\n",
        "torch.optim.SGD if",
    ),
    _script("gradients set to none", _TRAIN, _ZERO),
)
SETTINGS: Final = (
    _script("a setting behind the imports", _HEAD + train(imports=""), _BENCHMARK),
    _script(
        "a setting that is there",
        train(model="torch.backends.cudnn.benchmark = False\nmodel = torch.nn.Linear(4, 1)\n"),
        _BENCHMARK,
    ),
    _script(
        "a setting by an alias",
        train(
            imports=_IMPORTS + "from torch.backends import cudnn\n",
            model="cudnn.benchmark = False\nmodel = torch.nn.Linear(4, 1)\n",
        ),
        _BENCHMARK,
    ),
    _script(
        "a setting under a condition",
        train(model="if ds is None:\n    torch.backends.cudnn.benchmark = True\n" + _LINEAR),
        _BENCHMARK,
    ),
    _script(
        "threads that workers set for themselves",
        train(
            "def begin(_worker):\n    torch.set_num_threads(2)\n\n"
            "loader = DataLoader(ds, 4, num_workers=1, worker_init_fn=begin)\n"
        ),
        _THREADS,
    ),
    _script("the precision of products", train(), _PRECISION),
    _script(
        "a setter that is called",
        train(
            model="torch.set_float32_matmul_precision('highest')\nmodel = torch.nn.Linear(4, 1)\n"
        ),
        _PRECISION,
    ),
    _script("two settings", train(), (*_BENCHMARK, *_THREADS)),
    _script("threads", train(), _THREADS),
    Shape(
        "a script that imports no torch",
        {
            "train.py": "import run\n\nrun.main()\n",
            "run.py": _IMPORTS
            + "\ndef main():\n"
            + "".join(f"    {line}\n" if line else "\n" for line in train(imports="").split("\n")),
        },
        _THREADS,
    ),
    _script("a variable", train(), _VARIABLE),
    _script("a variable beside import os", "import os\n" + train(), _VARIABLE),
    _script(
        "a variable that is set",
        "import os\nos.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:False'\n" + train(),
        _VARIABLE,
    ),
    _refused(
        "a setting from the command line",
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nargs.n = 2\n"
        + train(model="torch.set_num_threads(args.n)\nmodel = torch.nn.Linear(4, 1)\n"),
        _THREADS,
        "command line",
    ),
    _refused("a variable of Python's", train(), (SetEnv("PYTHONHASHSEED", "0"),), "before Python"),
    _refused(
        "a setting by the newer name",
        train(
            model="torch.backends.cuda.matmul.allow_tf32 = False\nmodel = torch.nn.Linear(4, 1)\n"
        ),
        _PRECISION,
        "another name",
    ),
)
PARTS: Final = (
    _script("calls taken out", _TRAIN, _EMPTY),
    _script("channels last", train(model=_IMAGES), _CHANNELS),
    _script("a model compiled in place", train(), _COMPILE),
    _script("copies that are not waited for", _TRAIN, _COPIES),
    _script("a prefetcher", train(), _PREFETCH, "DataLoader(ds"),
    _script("no checkpointing of activations", _CHECKPOINT, _KEEP),
    _refused("no copies to be seen", train(), _COPIES, "no copy of a batch"),
    _refused("no calls to be seen", train(), _EMPTY, "no call of"),
    _refused(
        "a call that is handed on", _TRAIN + "hook = torch.cuda.empty_cache\n", _EMPTY, "handed on"
    ),
    _refused(
        "autocast", train(), (Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"}),), "person"
    ),
    _refused(
        "parameters without a model",
        train(optimizer="ps = list(model.parameters())\nopt = torch.optim.SGD(ps, lr=0.1)\n"),
        _CHANNELS,
        "which model",
    ),
)
