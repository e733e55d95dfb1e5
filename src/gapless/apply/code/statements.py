"""Statements and imports that are put into a file, offset the place where they belong."""

import sys
from typing import Final

import libcst as cst

from gapless.apply.code.references import qualify
from gapless.apply.code.source import SourceFile, Splice, SyntaxTree

_SETTINGS: Final = ("torch.backends.", "torch.set_", "torch.autograd.set_")


def insert_setting(source: SourceFile, line: str) -> Splice:
    """Return what puts a line for torch behind the imports of a script."""
    tree = source.tree
    imports = [
        number
        for number, node in enumerate(_opening(tree))
        if _is_import(node) or _is_setting(tree, node)
    ]
    body = tree.wrapper.module.body
    number = max(imports, default=-1)
    torch_line = "" if binds_torch(tree, number) else f"import torch{tree.newline}"
    if number < 0:
        offset, gap = top(tree), tree.newline
        return Splice(offset, offset, f"{torch_line}{gap}{line}{tree.newline}{gap}")
    is_first = not _is_setting(tree, body[number])
    gap = tree.newline if is_first else ""
    is_followed = number + 1 < len(body) and not _begins_with_gap(tree, body[number + 1])
    tail = gap if is_followed else ""
    return append_lines(tree, body[number], f"{torch_line}{gap}{line}{tree.newline}{tail}")


def insert_import(source: SourceFile, line: str, use: int) -> list[Splice]:
    """Return what puts an import behind those offset the top of a file; nothing, if it is there.

    ``use``: where the name is first used; the import comes before.
    """
    tree = source.tree
    statements = [
        statement
        for node in tree.wrapper.module.body
        if isinstance(node, cst.SimpleStatementLine)
        for statement in node.body
    ]
    if any(tree.code(statement) == line for statement in statements):
        return []
    imports = [node for node in _opening(tree) if _is_import(node) and tree.span(node)[1] < use]
    if imports:
        return [append_lines(tree, imports[-1], line + tree.newline)]
    return [Splice(top(tree), top(tree), line + tree.newline)]


def insert_first(source: SourceFile, line: str) -> Splice:
    """Return what puts a line with ``os`` before all imports but those of the standard library."""
    tree = source.tree
    leading = list[cst.CSTNode]()
    for node in _opening(tree):
        if _is_import(node) and not _is_standard(tree, node):
            break
        leading += [node] if _is_import(node) and not _is_future(node) else []
    if any("import os" in tree.code(node).split(";") for node in leading):
        return append_lines(tree, leading[-1], f"{tree.newline}{line}{tree.newline}")
    offset = top(tree)
    return Splice(offset, offset, f"import os{tree.newline * 2}{line}{tree.newline * 2}")


def _is_standard(tree: SyntaxTree, node: cst.CSTNode) -> bool:
    """Return whether a line imports from the standard library alone."""
    words = tree.code(node).replace(",", " ").split()
    imported = [words[1]] if words[0] == "from" else words[1:]
    return all(name.partition(".")[0] in sys.stdlib_module_names for name in imported)


def append_lines(tree: SyntaxTree, node: cst.CSTNode, text: str) -> Splice:
    """Return what puts whole lines behind the line that a node ends in."""
    end = tree.span(node)[1]
    offset = next((start for start in tree.starts if start > end), len(tree.text))
    is_last = offset == len(tree.text) and not tree.text.endswith(("\n", "\r"))
    return Splice(offset, offset, f"{tree.newline}{text}" if is_last else text)


def put_before(tree: SyntaxTree, node: cst.CSTNode, text: str) -> Splice:
    """Return what puts a line before a node's statement, in the same block."""
    enclosing_nodes = [node, *tree.ancestors(node)]
    statement = next(node for node in enclosing_nodes if isinstance(node, cst.BaseStatement))
    small = next(
        (node for node in enclosing_nodes if isinstance(node, cst.BaseSmallStatement)), None
    )
    line = tree.parents[small] if small is not None else statement
    if small is not None and not (
        isinstance(line, cst.SimpleStatementLine) and line.body[0] is small
    ):
        start = tree.span(small)[0]  # behind a colon or a semicolon
        return Splice(start, start, f"{text}; ")
    offset = tree.line_start(tree.span(statement)[0])
    return Splice(offset, offset, f"{tree.indent(offset)}{text}{tree.newline}")


def top(tree: SyntaxTree) -> int:
    """Return where the first line may be put: behind comments, docstring and ``__future__``."""
    offset = None
    for node in tree.wrapper.module.body:
        if not _is_docstring(tree, node) and not _is_future(node):
            break
        offset = append_lines(tree, node, "").start
    if offset is not None:
        return offset
    first = next(iter(tree.wrapper.module.body), None)
    return len(tree.text) if first is None else tree.line_start(tree.span(first)[0])


def binds_torch(tree: SyntaxTree, number: int | None = None) -> bool:
    """Return whether ``torch`` is imported by that name, in the first so many statements."""
    body = tree.wrapper.module.body
    chosen = body if number is None else body[: number + 1]
    return any(
        alias.asname is None and tree.code(alias.name).partition(".")[0] == "torch"
        for node in chosen
        if isinstance(node, cst.SimpleStatementLine)
        for statement in node.body
        if isinstance(statement, cst.Import)
        for alias in statement.names
    )


def _begins_with_gap(tree: SyntaxTree, node: cst.CSTNode) -> bool:
    """Return whether an empty line or a comment of its own is before a statement."""
    row = tree.line_start(tree.span(node)[0])
    previous = tree.line_start(row - 1) if row else 0
    line = tree.text[previous:row].strip()
    return not line or line.startswith("#")


def _opening(tree: SyntaxTree) -> list[cst.CSTNode]:
    """Return the statements of a module before the first that has a block."""
    nodes = list[cst.CSTNode]()
    for node in tree.wrapper.module.body:
        if isinstance(node, cst.BaseCompoundStatement) and not isinstance(node, cst.Try):
            break
        nodes.append(node)
    return nodes


def _is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(statement, (cst.Import, cst.ImportFrom)) for statement in node.body
    )


def _is_future(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(statement, cst.ImportFrom)
        and isinstance(statement.module, cst.Name)
        and statement.module.value == "__future__"
        for statement in node.body
    )


def _is_docstring(tree: SyntaxTree, node: cst.CSTNode) -> bool:
    is_first = node is tree.wrapper.module.body[0]
    return (
        is_first
        and isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _is_setting(tree: SyntaxTree, node: cst.CSTNode) -> bool:
    """Return whether a statement of a module sets something of torch."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return False
    statement = node.body[0]
    target: cst.CSTNode | None = None
    if isinstance(statement, cst.Assign):
        target = statement.targets[0].target
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        target = statement.value.func
    return target is not None and any(name.startswith(_SETTINGS) for name in qualify(tree, target))
