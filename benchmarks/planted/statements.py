"""What stands at a line of a source: the source without it, or with it done twice."""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final

# A statement that calls one of these trains: without it, a script does something else.
_TRAINING_CALLS: Final = frozenset({"backward", "step", "zero_grad", "main", "train", "fit"})
_SIMPLE: Final = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def remove_statement(text: str, line: int, last_line: int | None = None) -> str | None:
    """Return a source without the statements at some lines; ``None`` where one cannot go."""
    tree = _parse(text)
    if tree is None:
        return None
    statements = _outermost(tree, (line, last_line or line), _is_removable)
    if not statements or _has_others(tree, (line, last_line or line), statements):
        return None
    lines = text.splitlines(keepends=True)
    for statement in statements:
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        padding = " " * statement.col_offset
        lines[first:last] = [f"{padding}pass\n", *["\n"] * (last - first - 1)]
    return "".join(lines)


def repeat_statement(text: str, line: int, last_line: int | None = None) -> str | None:
    """Return a source that does twice what statements at some lines do; ``None`` if none can be.

    Of an assignment what is assigned is computed once more; a loop is gone through once more.
    """
    tree = _parse(text)
    if tree is None:
        return None
    lines = text.splitlines(keepends=True)

    def is_repeatable(statement: ast.stmt) -> bool:
        is_alone = not lines[statement.lineno - 1][: statement.col_offset].strip()
        repeated = _repeated_source(statement, text)
        return is_alone and repeated is not None and not _trains(statement)

    statements = _outermost(tree, (line, last_line or line), is_repeatable)
    for statement in reversed(statements):
        padding, first = " " * statement.col_offset, statement.lineno - 1
        lines[first:first] = [f"{padding}{_repeated_source(statement, text)}\n"]
    return "".join(lines) if statements else None


def decorate_function(text: str, line: int, decorator: str) -> str | None:
    """Return a source in which the function that holds a line has one more decorator.

    ``None`` where there is none, where it trains, or gives its results one by one.
    """
    tree = _parse(text)
    function = None if tree is None else find_function(tree, line)
    if function is None or _trains(function) or _is_generator(function):
        return None
    lines = text.splitlines(keepends=True)
    first = function.lineno - 1
    padding = " " * function.col_offset
    return "".join([*lines[:first], f"{padding}@{decorator}\n", *lines[first:]])


def is_at_function(text: str, line: int) -> bool:
    """Return whether a line is where a function begins, not a statement within it."""
    tree = _parse(text)
    function = None if tree is None else find_function(tree, line)
    return function is not None and line < function.body[0].lineno


def find_loop(text: str, line: int) -> int | None:
    """Return where the outermost loop begins that holds a line, and does not train."""
    tree = _parse(text)
    if tree is None:
        return None
    loops = [
        node
        for node in ast.walk(find_function(tree, line) or tree)
        if isinstance(node, ast.For) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return min((loop.lineno for loop in loops if not _trains(loop)), default=None)


def find_function(tree: ast.AST, line: int) -> _Function | None:
    """Return the innermost function that holds a line, its decorators counted."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _Function) and _first_line(node) <= line <= (node.end_lineno or 0)
    ]
    return max(functions, key=lambda function: function.lineno, default=None)


def _first_line(function: _Function) -> int:
    return min([function.lineno, *(node.lineno for node in function.decorator_list)])


def _is_generator(function: _Function) -> bool:
    if isinstance(function, ast.AsyncFunctionDef):
        return True
    nodes: list[ast.AST] = [*function.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _Function | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return False


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _repeated_source(statement: ast.stmt, text: str) -> str | None:
    if isinstance(statement, ast.For):
        return ast.get_source_segment(text, statement)
    value: ast.expr | None = getattr(statement, "value", None)
    value = value if isinstance(statement, _SIMPLE) else None
    return f"({ast.get_source_segment(text, value)})" if value is not None else None


def _outermost(
    tree: ast.AST, lines: tuple[int, int], is_fit: Callable[[ast.stmt], bool]
) -> list[ast.stmt]:
    """Return the statements to be changed at some lines, in their order, none within another.

    Of those that hold one line the innermost that fits is meant.
    """
    chosen: list[ast.stmt] = []
    for line in range(lines[0], lines[1] + 1):
        at_line = sorted(_statements_at(tree, line), key=lambda node: -node.lineno)
        statement = next(filter(is_fit, at_line), None)
        if statement is not None and not any(_holds(outer, statement) for outer in chosen):
            chosen.append(statement)
    return chosen


def _has_others(tree: ast.AST, lines: tuple[int, int], statements: Sequence[ast.stmt]) -> bool:
    """Return whether some of several lines hold what none of these statements does."""
    if lines[0] == lines[1]:
        return False
    at_lines = (
        node for line in range(lines[0], lines[1] + 1) for node in _statements_at(tree, line)
    )
    return any(
        not any(_holds(outer, node) for outer in statements)
        for node in at_lines
        if isinstance(node, _SIMPLE)
    )


def _holds(outer: ast.stmt, inner: ast.stmt) -> bool:
    last_line = outer.end_lineno or outer.lineno
    return outer.lineno <= inner.lineno and (inner.end_lineno or inner.lineno) <= last_line


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


def _trains(statement: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
    return bool(names & _TRAINING_CALLS)
