"""A program's calls by hand, for what draws and exports them."""

from typing import Final

from msgspec.structs import replace

from gapless.model.calls import CallNode, CallTree
from gapless.model.study import Study

HOSTILE_CALL: Final = "</script><img src=x onerror=alert(1)>\x1b[31m"
_TORCH: Final = "/x/lib/python3.12/site-packages/torch"
_ROWS: Final = (  # parent, file, function, line, its package, own time
    (-1, "/code/train.py", "<module>", 30, None, 0),
    (0, f"{_TORCH}/__init__.py", "<module>", 9, "torch", 150),
    (0, "/code/train.py", "main", 12, None, 100),
    (2, f"{_TORCH}/nn/modules/module.py", "Module._call_impl", 5, "torch", 0),
    (3, f"{_TORCH}/nn/modules/conv.py", "Conv2d.forward", 6, "torch", 0),
    (4, f"{_TORCH}/nn/modules/conv.py", "Conv2d._conv_forward", 7, "torch", 700),
    (2, "/code/train.py", HOSTILE_CALL, 13, None, 40),
    (2, "/code/train.py", "rare", 14, None, 10),
)


def called_tree(title: str = "main thread") -> CallTree:
    """Return a tree of a microsecond, a look for each of its calls."""
    nodes = tuple(
        CallNode(parent, file, function, line, package, own_ns, 1)
        for parent, file, function, line, package, own_ns in _ROWS
    )
    return CallTree(title, nodes, life_ns=4_000, rare_ns=0, rare_looks=0, setup_ns=150)


def with_calls(study: Study, *trees: CallTree) -> Study:
    """Return the study of a run with some trees of calls."""
    assert study.recorded is not None
    return replace(study, recorded=replace(study.recorded, calls=trees))
