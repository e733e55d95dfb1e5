"""Shapes in which loaders are made."""

from typing import Final

from benchmarks.patching.shape import LOADER, WORKERS, Shape, set_loader, train
from gapless.model.edit import Edit, SetArgument

_TORCH: Final = "import torch\nfrom torch.utils.data import TensorDataset\n"
_PLAIN: Final = "from torch.utils.data import DataLoader\n"
_PARTIAL: Final = "import functools\n" + _TORCH + _PLAIN
_MANY: Final[tuple[Edit, ...]] = (
    SetArgument(LOADER, "num_workers", 1),
    SetArgument(LOADER, "pin_memory", value=True),
    SetArgument(LOADER, "persistent_workers", value=True),
    SetArgument(LOADER, "prefetch_factor", 4),
)
_FUNCTION: Final = (
    "def make(data, size=4, workers=0):\n    return DataLoader(data, size, num_workers=workers)\n"
)
_SUBCLASS: Final = """class Batches(DataLoader):
    def __init__(self, data, **rest):
        super().__init__(data, batch_size=4, **rest)

"""


def _written(name: str, loader: str, at: str = "DataLoader(", **parts: str) -> Shape:
    return Shape(name, {"train.py": train(loader, **parts)}, WORKERS, at)


def _refused(name: str, loader: str, reason: str, at: str = "DataLoader(ds", **parts: str) -> Shape:
    return Shape(name, {"train.py": train(loader, **parts)}, WORKERS, at, refused=reason)


LAYOUTS: Final = (
    _written("a call in the script", "loader = DataLoader(ds, batch_size=4)\n", "DataLoader(ds"),
    _written("positional arguments", "loader = DataLoader(ds, 4, True)\n", "DataLoader(ds"),
    _written(
        "the argument by position",
        "loader = DataLoader(ds, 4, True, None, None, 0)\n",
        "DataLoader(ds",
    ),
    _written("a keyword replaced", "loader = DataLoader(ds, num_workers=0)\n", "DataLoader(ds"),
    _written(
        "spaces around the keyword",
        "loader = DataLoader( ds , num_workers = 0 )\n",
        "DataLoader( ds",
    ),
    _written(
        "lines with a trailing comma",
        "loader = DataLoader(\n    ds,\n    batch_size=4,\n)\n",
        "DataLoader(\n",
    ),
    _written(
        "lines with comments",
        "loader = DataLoader(  # all\n    ds,\n    batch_size=4,  # four\n    # the end\n)\n",
        "DataLoader(  #",
    ),
    _written(
        "lines without a trailing comma",
        "loader = DataLoader(\n    ds,\n    batch_size=4  # four\n)\n",
        "DataLoader(\n",
    ),
    _written(
        "aligned under the parenthesis",
        "loader = DataLoader(ds,\n                    batch_size=4)\n",
        "DataLoader(ds",
    ),
    _written("a comma before the end", "loader = DataLoader(ds, batch_size=4,)\n", "DataLoader(ds"),
    _written("a backslash", "loader = \\\n    DataLoader(ds, batch_size=4)\n", "    DataLoader(ds"),
    _written(
        "several statements in a line", "n = 4; loader = DataLoader(ds, n); m = 1\n", "n = 4;"
    ),
    _written(
        "two loaders in a line",
        "loader, other = DataLoader(ds, 4), DataLoader(ds, 8)\n",
        "loader, other",
    ),
    _written(
        "a conditional expression for a value",
        "loader = DataLoader(ds, 4, num_workers=2 if ds is None else 0)\n",
        "DataLoader(ds",
    ),
    _written(
        "a conditional expression of loaders",
        "loader = DataLoader(ds, 4) if len(ds) > 4 else DataLoader(ds, 1)\n",
        "loader = DataLoader",
    ),
    _written(
        "a computed value", "loader = DataLoader(ds, num_workers=max(0, 0))\n", "DataLoader(ds"
    ),
    _written(
        "a lambda", "make = lambda data: DataLoader(data, 4)\nloader = make(ds)\n", "lambda data"
    ),
    _written(
        "a comprehension",
        "(loader,) = [DataLoader(data, 4) for data in (ds,)]\n",
        "DataLoader(data",
    ),
    _written("an annotation", "loader: DataLoader = DataLoader(ds, 4)\n", "loader: DataLoader"),
    _written("a walrus", "print(len(loader := DataLoader(ds, batch_size=4)))\n", "loader :="),
    _written("unicode before the call", "s, loader = 'ö–漢', DataLoader(ds, 4)\n", "s, loader"),
    Shape(
        "the same value",
        {"train.py": train("loader = DataLoader(ds, 4, num_workers=1)\n")},
        WORKERS,
        "DataLoader(ds",
        same=True,
    ),
    Shape("four arguments", {"train.py": train()}, _MANY, "DataLoader(ds"),
    Shape(
        "four arguments in lines",
        {"train.py": train("loader = DataLoader(\n    ds,\n    4,\n    pin_memory=False,\n)\n")},
        _MANY,
        "DataLoader(\n",
    ),
    Shape(
        "workers taken away",
        {"train.py": train("loader = DataLoader(ds, 4, num_workers=1, prefetch_factor=4)\n")},
        (*set_loader("num_workers", 0), *set_loader("prefetch_factor", None)),
        "DataLoader(ds",
    ),
    Shape(
        "CRLF",
        {"train.py": train("loader = DataLoader(\n    ds,\n    4,\n)\n").replace("\n", "\r\n")},
        WORKERS,
        "DataLoader(\r\n",
    ),
    Shape("a byte order mark", {"train.py": train()}, WORKERS, "DataLoader(ds", coding="utf-8-sig"),
    Shape(
        "another coding",
        {"train.py": "# -*- coding: latin-1 -*-\nTITLE = 'Übung'\n" + train()},
        WORKERS,
        "DataLoader(ds",
        coding="latin-1",
    ),
    Shape(
        "no line at the end",
        {"train.py": train(loop="\nfor x, y in loader: model(x)")},
        WORKERS,
        "DataLoader(ds",
    ),
)

PLACES: Final = (
    _written(
        "an alias of the class",
        "loader = DL(ds, 4)\n",
        "DL(ds",
        imports=_TORCH + "from torch.utils.data import DataLoader as DL\n",
    ),
    _written(
        "an alias of the module",
        "loader = tud.DataLoader(ds, 4)\n",
        "tud.DataLoader(",
        imports=_TORCH + "import torch.utils.data as tud\n",
    ),
    _written(
        "the whole name",
        "loader = torch.utils.data.DataLoader(ds, 4)\n",
        "torch.utils.data.DataLoader(",
        imports=_TORCH,
    ),
    _written(
        "the private module",
        "loader = DataLoader(ds, 4)\n",
        "DataLoader(ds",
        imports=_TORCH + "from torch.utils.data.dataloader import DataLoader\n",
    ),
    _written(
        "a star",
        "loader = DataLoader(ds, 4)\n",
        "DataLoader(ds",
        imports="import torch\nfrom torch.utils.data import *\n",
    ),
    _written("another name for it", "Loader = DataLoader\nloader = Loader(ds, 4)\n", "Loader(ds"),
    _written(
        "a partial",
        "make = functools.partial(DataLoader, batch_size=4)\nloader = make(ds)\n",
        "make(ds)",
        imports=_PARTIAL,
    ),
    _written(
        "a partial that has the argument",
        "make = functools.partial(DataLoader, num_workers=0)\nloader = make(ds)\n",
        "make(ds)",
        imports=_PARTIAL,
    ),
    _written(
        "a partial with the data set",
        "make = functools.partial(DataLoader, ds)\nloader = make(4, True, None, None, 0)\n",
        "make(4",
        imports=_PARTIAL,
    ),
    _written(
        "a dictionary with the argument",
        'kw = {"batch_size": 4, "num_workers": 0}\nloader = DataLoader(ds, **kw)\n',
        "DataLoader(ds",
    ),
    _written(
        "a dictionary without it",
        "kw = dict(batch_size=4, shuffle=True)\nloader = DataLoader(ds, **kw)\n",
        "DataLoader(ds",
    ),
    _written(
        "a dictionary at the call",
        'loader = DataLoader(ds, **{"num_workers": 0})\n',
        "DataLoader(ds",
    ),
    _written(
        "a function with a default",
        _FUNCTION + "loader = make(ds)\n",
        "DataLoader(data",
    ),
    _written(
        "a constant used once",
        "WORKERS = 0  # of each loader\nloader = DataLoader(ds, 4, num_workers=WORKERS)\n",
        "DataLoader(ds",
    ),
    _written("a subclass", _SUBCLASS + "loader = Batches(ds)\n", "super().__init__("),
    _written(
        "a subclass without a constructor",
        "class Batches(DataLoader):\n    pass\n\nloader = Batches(ds, 4)\n",
        "Batches(ds",
    ),
    _written(
        "a method",
        "class Data:\n    def loader(self):\n        return DataLoader(ds, 4)\n\n"
        "loader = Data().loader()\n",
        "DataLoader(ds",
    ),
    _written(
        "tabs",
        "def make():\n\treturn DataLoader(\n\t\tds,\n\t\t4,\n\t)\nloader = make()\n",
        "DataLoader(\n",
    ),
    _written(
        "a decorated function",
        "def same(f):\n    return f\n\n@same\ndef make():\n    return DataLoader(ds, 4)\n\n"
        "loader = make()\n",
        "DataLoader(ds",
    ),
    _written(
        "in the guard of a script",
        "if __name__ == '__main__':\n    loader = DataLoader(ds, 4)\n",
        "DataLoader(ds",
    ),
    Shape(
        "another file",
        {
            "train.py": train(
                "loader = data.make(ds)\n",
                imports="import torch, data\nfrom torch.utils.data import TensorDataset\n",
            ),
            "data.py": _PLAIN + "\ndef make(ds):\n    return DataLoader(ds, 4)\n",
        },
        WORKERS,
        "DataLoader(ds",
        file="data.py",
    ),
    Shape(
        "a subclass of another file",
        {
            "train.py": train(
                "loader = Batches(ds, 4)\n", imports=_TORCH + "from data import Batches\n"
            ),
            "data.py": _PLAIN + "\nclass Batches(DataLoader):\n    pass\n",
        },
        WORKERS,
        "Batches(ds",
    ),
    Shape(
        "two fixes of a default",
        {
            "train.py": train(
                _FUNCTION.replace("workers=0", "workers=0, pin=False").replace(
                    "=workers", "=workers, pin_memory=pin"
                )
                + "loader = make(ds)\n"
            )
        },
        (*WORKERS, *set_loader("pin_memory", value=True)),
        "DataLoader(data",
    ),
)

REFUSED: Final = (
    _refused(
        "the command line",
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--workers', type=int, default=0)\nargs = parser.parse_args()\n"
        "loader = DataLoader(ds, 4, num_workers=args.workers)\n",
        "command line",
    ),
    _refused(
        "a configuration",
        "cfg = {'workers': 0}\nloader = DataLoader(ds, 4, num_workers=cfg['workers'])\n",
        "cfg['workers']",
    ),
    _refused(
        "the environment",
        "import os\nloader = DataLoader(ds, num_workers=int(os.environ.get('WORKERS', 0)))\n",
        "environment",
    ),
    _refused(
        "an argument of a decorated function",
        "def click(f):\n    return lambda: f(0)\n\n@click\ndef make(n=0):\n"
        "    return DataLoader(ds, 4, num_workers=n)\n\nloader = make()\n",
        "decorated",
    ),
    _refused(
        "an attribute of an object",
        "class Data:\n    n = 0\n    def loader(self):\n"
        "        return DataLoader(ds, 4, num_workers=self.n)\n\nloader = Data().loader()\n",
        "self.n",
    ),
    Shape(
        "a constant of another file",
        {
            "train.py": train(
                "loader = DataLoader(ds, 4, num_workers=WORKERS)\n",
                imports="from config import WORKERS\n" + _TORCH + _PLAIN,
            ),
            "config.py": "WORKERS = 0\n",
        },
        WORKERS,
        "DataLoader(ds",
        refused="other code uses",
    ),
    _refused(
        "a constant that others use",
        "N = 0\nloader = DataLoader(ds, 4, num_workers=N)\nprint(N)\n",
        "other code uses",
    ),
    _refused(
        "a dictionary that others use",
        "kw = {'num_workers': 0}\nloader = DataLoader(ds, **kw)\nother = DataLoader(ds, **kw)\n",
        "other code uses",
    ),
    _refused(
        "a dictionary that is made",
        "import json\nkw = json.loads('{}')\nloader = DataLoader(ds, **kw)\n",
        "not written here",
    ),
    _refused(
        "a sequence of arguments",
        "given = (ds, 4)\nloader = DataLoader(*given)\n",
        "sequence",
        "DataLoader(*given",
    ),
    _refused(
        "a default that a caller gives",
        _FUNCTION + "loader = make(ds, 4, 0)\nother = make(ds)\n",
        "callers give",
        "DataLoader(data",
    ),
    _refused(
        "code that is made while it runs",
        "exec('loader = DataLoader(ds, 4)')\n",
        "no call of",
        "exec(",
    ),
    _refused(
        "a class looked up by name",
        "loader = getattr(torch.utils.data, 'DataLoader')(ds, 4)\n",
        "no call of",
        "getattr(",
    ),
    Shape(
        "a string of code",
        {"train.py": train("exec('loader = DataLoader(ds, 4)')\n")},
        WORKERS,
        "DataLoader(",
        file="<string>",
        refused="while the training runs",
    ),
    Shape(
        "an installed package",
        {"train.py": train()},
        WORKERS,
        "DataLoader(",
        file="/usr/lib/python3/site-packages/lightning/data.py",
        refused="not one of your files",
    ),
    Shape(
        "a notebook",
        {"train.ipynb": "{}"},
        WORKERS,
        "{}",
        file="train.ipynb",
        refused="notebook",
    ),
    Shape(
        "a file that does not parse",
        {"train.py": "loader = DataLoader(ds, (4)\n"},
        WORKERS,
        "DataLoader(",
        refused="cannot be parsed",
    ),
    Shape(
        "prefetching without workers",
        {"train.py": train()},
        set_loader("prefetch_factor", 4),
        "DataLoader(ds",
        refused="no workers",
    ),
)
