"""The tree of calls on a terminal: pruned, folded, with what the sampler saw."""

import io

from gapless.model.calls import CallTree
from gapless.report.sections.calls import call_branches, calls_lines
from gapless.report.text.console import pen_for
from gapless.report.text.text import clean
from tests.page.called import HOSTILE_CALL, called_tree


def printed(tree: CallTree, width: int = 100) -> list[str]:
    return [line.plain for line in calls_lines([tree], pen_for(io.StringIO(), width))]


def test_calls_below_the_share_are_left_out_and_libraries_are_folded() -> None:
    (root,) = call_branches(called_tree())
    assert (root.name, root.share, root.own_share) == ("train.py", 1.0, 0.0)
    main, torch = root.branches
    assert (torch.name, torch.place, torch.share) == ("import torch", "torch/__init__.py:9", 0.15)
    conv, log = main.branches
    assert (conv.name, conv.own_share, conv.branches) == ("Conv2d.forward", 0.7, ())
    assert (log.name, log.path) == (clean(HOSTILE_CALL), "/code/train.py:13")
    assert [call.name for call in call_branches(called_tree(), 0.0)[0].branches[0].branches] == [
        "Conv2d.forward",
        clean(HOSTILE_CALL),
        "rare",
    ]


def test_the_lines_say_what_was_seen_and_stay_within_the_width() -> None:
    lines = printed(called_tree())
    assert lines[0].startswith(
        "calls    main thread: 8 samples of Python stacks stand for 1.00 µs of 4.00"
    )
    assert "0.15 µs of it before the training" in " ".join(" ".join(lines[:2]).split())
    assert "        70.0 %  70.0 %      Conv2d.forward  torch/nn/modules/conv.py:6" in [
        f"  {line}" for line in lines
    ]
    assert all(len(line) <= 44 for line in printed(called_tree(), 44))
    assert not any("\x1b" in line for line in lines)
