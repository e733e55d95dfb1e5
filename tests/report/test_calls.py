"""The tree of calls on a terminal: pruned, folded, with what the sampler saw."""

import io

from gapless.model.calls import CallNode, CallTree
from gapless.report.sections.calls import call_branches, calls_lines
from gapless.report.text.console import pen_for

TORCH = "/x/lib/python3.12/site-packages/torch"
ROWS = (  # parent, file, function, line, its package, own time
    (-1, "/home/a/train.py", "<module>", 30, None, 0),
    (0, f"{TORCH}/__init__.py", "<module>", 9, "torch", 150),
    (0, "/home/a/train.py", "main", 12, None, 100),
    (2, f"{TORCH}/nn/modules/module.py", "Module._call_impl", 5, "torch", 0),
    (3, f"{TORCH}/nn/modules/conv.py", "Conv2d.forward", 6, "torch", 0),
    (4, f"{TORCH}/nn/modules/conv.py", "Conv2d._conv_forward", 7, "torch", 700),
    (2, "/home/a/train.py", "log\x1b[31m", 13, None, 40),
    (2, "/home/a/train.py", "rare", 14, None, 10),
)


def drawn_tree() -> CallTree:
    nodes = tuple(
        CallNode(parent, file, function, line, package, own, 1)
        for parent, file, function, line, package, own in ROWS
    )
    return CallTree("main thread", nodes, 4_000, 0, 0, 150)


def printed(tree: CallTree, width: int = 100) -> list[str]:
    return [line.plain for line in calls_lines([tree], pen_for(io.StringIO(), width))]


def test_calls_below_the_share_are_left_out_and_libraries_are_folded() -> None:
    (root,) = call_branches(drawn_tree())
    assert (root.name, root.share, root.own_share) == ("train.py", 1.0, 0.0)
    main, torch = root.branches
    assert (torch.name, torch.place, torch.share) == ("import torch", "torch/__init__.py:9", 0.15)
    conv, log = main.branches
    assert (conv.name, conv.own_share, conv.branches) == ("Conv2d.forward", 0.7, ())
    assert (log.name, log.path) == ("log", "/home/a/train.py:13")
    assert [call.name for call in call_branches(drawn_tree(), 0.0)[0].branches[0].branches] == [
        "Conv2d.forward",
        "log",
        "rare",
    ]


def test_the_lines_say_what_was_seen_and_stay_within_the_width() -> None:
    lines = printed(drawn_tree())
    assert lines[0].startswith(
        "calls    main thread: 8 looks at Python stacks stand for 1.00 µs of 4.00"
    )
    assert "0.15 µs of it before the training" in " ".join(" ".join(lines[:2]).split())
    assert "        70.0 %  70.0 %      Conv2d.forward  torch/nn/modules/conv.py:6" in [
        f"  {line}" for line in lines
    ]
    assert all(len(line) <= 44 for line in printed(drawn_tree(), 44))
    assert not any("\x1b" in line for line in lines)
