"""Take the statement at a named line out of a script: what it costs is known without any fix."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# A statement that calls one of these trains: without it, a script does something else.
_TRAINING_CALLS: Final = frozenset({"backward", "step", "zero_grad", "main", "train", "fit"})


def remove_named(root: Path, file: str, line: int) -> bool:
    """Take out the statement at a line of a file below a folder; tell whether there was one.

    Where it defines a name, what is done below the same condition goes with it.

    What follows keeps its line. Nothing is taken out that trains.
    """
    for path in sorted(root.rglob(file)):
        text = path.read_text(encoding="utf-8")
        shorter = remove_statement(text, line)
        if shorter is not None:
            path.write_text(shorter, encoding="utf-8")
            return True
    return False


def remove_statement(text: str, line: int) -> str | None:
    """Return a source without the statement at a line; ``None`` where none can go."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    at_line = sorted(_statements_at(tree, line), key=lambda node: -node.lineno)
    statement = next(filter(_is_removable, [*at_line, *_conditions_around(tree, line)]), None)
    if statement is None:
        return None
    lines = text.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
    padding = " " * statement.col_offset
    return "".join(
        [*lines[:first], f"{padding}pass\n", *["\n"] * (last - first - 1), *lines[last:]]
    )


def _statements_at(tree: ast.AST, line: int) -> Iterator[ast.stmt]:
    """Return the statements that hold a line; of those with a block, only if it is their head."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        last_line = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        if node.lineno <= line <= last_line:
            yield node


def _conditions_around(tree: ast.AST, line: int) -> list[ast.If]:
    """Return the conditions that a line is below, the innermost first: work done now and then."""
    conditions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and node.lineno < line <= (node.end_lineno or 0)
    ]
    return sorted(conditions, key=lambda node: -node.lineno)


def _is_removable(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr | ast.If | ast.For | ast.With | ast.AugAssign):
        return False
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
    return not names & _TRAINING_CALLS
