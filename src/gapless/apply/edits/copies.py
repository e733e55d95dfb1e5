"""Copies of batches to a device that need not be waited for."""

from typing import Final

import libcst as cst
from libcst.metadata import Assignment

from gapless.apply.code.project import Project
from gapless.apply.code.references import assigned_value, find_binding
from gapless.apply.code.source import SyntaxTree, UnwritableError
from gapless.apply.edits.arguments import append_argument

_COPIES: Final = ("to", "cuda")
_DEVICES: Final = ("device", "cuda", "gpu", "rank")  # in what a copy goes to


def unblock_copies(project: Project) -> Project:
    """Add ``non_blocking=True`` to copies of what a loop goes over. Raises ``UnwritableError``."""
    n_copies = 0
    for source in project.readable():
        tree = source.tree
        calls = [call for call in tree.calls if _is_copy(tree, call)]
        n_copies += len(calls)
        open_calls = [call for call in calls if not _says_more(call)]
        splices = [
            splice
            for call in open_calls
            for splice in append_argument(tree, call, "non_blocking=True")
        ]
        project = project.splice(source, splices)
    if not n_copies:
        raise UnwritableError("no copy of a batch to the device was found in your files")
    return project


def _is_copy(tree: SyntaxTree, call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _COPIES:
        return False
    is_to = func.attr.value == "to"
    return _is_batch(tree, func.value) and (not is_to or _goes_to_device(tree, call))


def _says_more(call: cst.Call) -> bool:
    return any(
        (arg.keyword is not None and arg.keyword.value == "non_blocking")
        or (isinstance(arg.value, cst.Name) and arg.value.value in ("True", "False"))
        or arg.star
        for arg in call.args
    )


def _goes_to_device(tree: SyntaxTree, call: cst.Call) -> bool:
    """Return whether the first argument may name a CUDA device: no format, not the host."""
    arg = next(
        (arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"), None
    )
    if arg is None:
        return False
    texts = [tree.code(arg.value)]
    if isinstance(arg.value, cst.Name):
        binding = find_binding(tree, arg.value, arg.value.value)
        value = assigned_value(tree, binding) if binding is not None else None
        texts += [] if value is None else [tree.code(value)]
    if any("cpu" in text and "cuda" not in text for text in texts):
        return False
    return any(word in texts[0].lower() for word in _DEVICES) or isinstance(arg.value, cst.Integer)


def _is_batch(tree: SyntaxTree, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Return whether an expression is, or is taken from, what a loop goes over."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    scope = tree.scopes.get(node)
    if not isinstance(node, cst.Name) or scope is None or depth > 4:  # noqa: PLR2004 - names of names
        return False
    bindings = list(scope[node.value])
    kinds = [_comes_from_loop(tree, binding, depth) for binding in bindings]
    return True in kinds and False not in kinds


def _comes_from_loop(tree: SyntaxTree, binding: object, depth: int) -> bool | None:
    """Return whether a name is bound by a loop; None: by a copy, which says nothing."""
    if not isinstance(binding, Assignment):
        return False
    inner: cst.CSTNode = binding.node
    for node in tree.ancestors(binding.node):
        if isinstance(node, (cst.For, cst.CompFor)) and node.target is inner:
            return "parameters(" not in tree.code(node.iter)
        if isinstance(node, cst.Assign):
            return None if _copies(node.value) else _is_batch(tree, node.value, depth + 1)
        if isinstance(node, cst.BaseStatement):
            return False
        inner = node
    return False


def _copies(node: cst.BaseExpression) -> bool:
    """Return whether an expression is a copy to a device, or some of them."""
    if isinstance(node, cst.Tuple):
        return all(_copies(element.value) for element in node.elements)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in _COPIES
