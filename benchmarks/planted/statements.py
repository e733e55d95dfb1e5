"""The statement at a line of a source: the source without it, or with it done twice."""

import ast
from collections.abc import Iterator
from typing import Final

# A statement that calls one of these trains: without it, a script does something else.
_TRAINING_CALLS: Final = frozenset({"backward", "step", "zero_grad", "main", "train", "fit"})


def remove_statement(text: str, line: int) -> str | None:
    """Return a source without the statement at a line; ``None`` where none can go."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    at_line = sorted(_statements_at(tree, line), key=lambda node: -node.lineno)
    statement = next(filter(_is_removable, at_line), None)
    if statement is None:
        return None
    lines = text.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
    padding = " " * statement.col_offset
    return "".join(
        [*lines[:first], f"{padding}pass\n", *["\n"] * (last - first - 1), *lines[last:]]
    )


def repeat_statement(text: str, line: int) -> str | None:
    """Return a source that does twice what a statement at a line does; ``None`` if none can be.

    Of an assignment what is assigned is computed once more; a loop is gone through once more.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    lines = text.splitlines(keepends=True)
    for statement in sorted(_statements_at(tree, line), key=lambda node: -node.lineno):
        is_alone = not lines[statement.lineno - 1][: statement.col_offset].strip()
        repeated = _repeated_source(statement, text)
        if is_alone and repeated is not None and not _trains(statement):
            padding = " " * statement.col_offset
            first = statement.lineno - 1
            return "".join([*lines[:first], f"{padding}{repeated}\n", *lines[first:]])
    return None


def _repeated_source(statement: ast.stmt, text: str) -> str | None:
    if isinstance(statement, ast.For):
        return ast.get_source_segment(text, statement)
    has_value = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr)
    value = getattr(statement, "value", None) if has_value else None
    return f"({ast.get_source_segment(text, value)})" if value is not None else None


def _statements_at(tree: ast.AST, line: int) -> Iterator[ast.stmt]:
    """Return the statements that hold a line; of those with a block, only if it is their head."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        last_line = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        if node.lineno <= line <= last_line:
            yield node


def _is_removable(statement: ast.stmt) -> bool:
    kinds = ast.Expr | ast.If | ast.For | ast.With | ast.AugAssign
    return isinstance(statement, kinds) and not _trains(statement)


def _trains(statement: ast.stmt) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
    return bool(names & _TRAINING_CALLS)
