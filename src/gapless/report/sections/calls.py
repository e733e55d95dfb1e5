"""The calls of a whole program, as a sampler saw them: a tree, pruned, share by share."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from gapless.model.calls import CallNode, CallTree
from gapless.report.text.console import Pen
from gapless.report.text.numbers import count, percent, span
from gapless.report.text.text import clean, cut_middle, pad
from gapless.report.text.wrap import fold

SHOWN_SHARE: Final = 0.02  # of what was seen: a call of less is not printed
_PASSING_SHARE: Final = 0.95  # of a library's call: so much in one that it calls, and it passes on
_PLUMBING: Final = "torch/nn/modules/module.py"  # what calls a forward pass: that has the name
_MODULE: Final = "<module>"
_MAX_INDENT: Final = 24  # levels
_MIN_PLACE_CELLS: Final = 8  # a file and a line in less say nothing
_DIM: Final = "bright_black"


class CallBranch(Struct, frozen=True):
    """A call that is shown, with the shown ones that it makes."""

    name: str
    place: str  # the line where most of its time passed; empty: it has none
    path: str  # the same with the whole path
    is_users: bool
    ns: int  # with all that it calls
    share: float  # of what was seen
    own_share: float  # what it spent itself
    branches: tuple["CallBranch", ...]


def call_branches(tree: CallTree, min_share: float = SHOWN_SHARE) -> tuple[CallBranch, ...]:
    """Return calls of a share at least; what a library's only passes on to is part of it."""
    return tuple(
        _branch(tree, number, min_share) for number in _select(tree, tree.roots, min_share)
    )


def _select(tree: CallTree, numbers: Sequence[int], min_share: float) -> list[int]:
    least_ns = max(1.0, min_share * tree.seen_ns)
    return [number for number in numbers if tree.total_ns[number] >= least_ns]


def _branch(tree: CallTree, number: int, min_share: float) -> CallBranch:
    chain = _chain(tree, number, min_share)
    named = [link for link in chain if not tree.nodes[link].file.endswith(_PLUMBING)]
    callees = _select(tree, tree.children[chain[-1]], min_share)
    if not named and len(callees) == 1 and tree.nodes[number].parent >= 0:
        return _branch(tree, callees[0], min_share)
    node = tree.nodes[(named or chain)[0]]
    own_ns = sum(tree.nodes[link].own_ns for link in chain)
    return CallBranch(
        name=call_name(node),
        place=call_place(node),
        path=clean(f"{node.file}:{node.line}") if node.line else "",
        is_users=node.package is None,
        ns=tree.total_ns[number],
        share=tree.total_ns[number] / tree.seen_ns,
        own_share=own_ns / tree.seen_ns,
        branches=tuple(_branch(tree, called_number, min_share) for called_number in callees),
    )


def _chain(tree: CallTree, number: int, min_share: float) -> list[int]:
    """Return a call with those of libraries behind it to which it only passes on."""
    chain = [number]
    while tree.nodes[chain[-1]].package is not None:
        callees = _select(tree, tree.children[chain[-1]], min_share)[:1]
        passed_ns = _PASSING_SHARE * tree.total_ns[chain[-1]]
        chain += [
            link
            for link in callees
            if tree.nodes[link].package is not None and tree.total_ns[link] >= passed_ns
        ]
        if chain[-1:] != callees:
            break
    return chain


def call_name(node: CallNode) -> str:
    """Return what a call is called: a module that runs is a script, or is imported."""
    if node.function != _MODULE:
        return clean(node.function)
    file = _short_file(node)
    if node.parent < 0:
        return file
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"import {module}"


def call_place(node: CallNode) -> str:
    """Return a call's file, from its package on, and its line; empty where it has none."""
    return f"{_short_file(node)}:{node.line}" if node.line else ""


def _short_file(node: CallNode) -> str:
    parts = PurePath(node.file).parts
    names = (node.package, f"{node.package}.py")
    start = max((index for index, part in enumerate(parts) if part in names), default=-1)
    return clean("/".join(parts[start:]) if node.package else PurePath(node.file).name)


def seen_text(tree: CallTree) -> str:
    """Say what the sampler saw of a thread, and of how many samples that is."""
    samples = "one sample" if tree.looks == 1 else f"{count(tree.looks)} samples"
    text = f"{tree.title}: {samples} of Python stacks stand for {span(tree.seen_ns)}"
    text += f" of {span(tree.life_ns)}"
    if tree.setup_ns:
        text += f", {span(tree.setup_ns)} of it before the training"
    if tree.rare_ns:
        text += f"; {percent(tree.rare_ns / tree.seen_ns)} in stacks too rare to be kept"
    return text


def calls_lines(trees: Sequence[CallTree], pen: Pen) -> Iterator[Text]:
    """Return the trees as indented lines: a share with all that is called, one without, a name."""
    for index, tree in enumerate(trees):
        head = pad("calls" if index == 0 else "", 9)
        for depth, text in enumerate(fold(seen_text(tree), pen.width - 11)):
            yield Text.assemble((head if depth == 0 else pad("", 9), "bold"), text)
        yield Text("  with calls  itself", _DIM)
        for branch in call_branches(tree):
            yield from _branch_lines(branch, 0, pen)
    if trees:
        remark = (
            f"left out: calls of less than {SHOWN_SHARE * 100:.0f} %, and what a library's only "
            "passes on to; gapless report --html or --speedscope has all"
        )
        yield from fold(remark, pen.width, _DIM)


def _branch_lines(branch: CallBranch, depth: int, pen: Pen) -> Iterator[Text]:
    figures = f"{_share(branch.share):>12}{_share(branch.own_share):>8}  "
    indent = "  " * min(depth, _MAX_INDENT)
    room = max(12, pen.width - len(figures) - len(indent))
    name = cut_middle(branch.name, room)
    line = Text.assemble(figures, indent, (name, "bold" if branch.is_users else ""))
    if (place_room := room - cell_len(name) - 2) >= _MIN_PLACE_CELLS:
        line.append(f"  {cut_middle(branch.place, place_room)}", _DIM)
    yield line
    for callee in branch.branches:
        yield from _branch_lines(callee, depth + 1, pen)


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"
