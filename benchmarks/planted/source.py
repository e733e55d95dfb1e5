"""Read the source of a training and splice statements into it, keeping all else to the letter.

Places are found in the syntax tree, changes are made in the text, so that line numbers of what was
planted are known exactly and the rest of the script stays as its authors wrote it.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

Block = list[ast.stmt]
_SCHEDULES: Final = ("sched", "scaler", "warmup", "env", "writer", "prof")


@dataclass(frozen=True)
class Insertion:
    """Whole lines put in before line ``line`` (1-based) of the original, indented by ``indent``."""

    line: int
    text: str
    indent: int = 0


@dataclass(frozen=True)
class Replacement:
    """Text of one expression (by its place in the original) replaced by another of one line."""

    node: ast.expr | ast.keyword
    text: str


Change = Insertion | Replacement


@dataclass(frozen=True)
class Edited:
    """A changed source, its lines that hold what was planted, and where each old line is now."""

    text: str
    lines: tuple[int, ...]  # 1-based
    moved: tuple[int, ...]  # by old line, from that of line 1 on


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a script with its syntax tree."""

    text: str
    tree: ast.Module
    rows: tuple[str, ...]

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node."""
        first_row, last_row = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if not isinstance(first_row, int) or not isinstance(last_row, int):
            return ""
        rows = [row.encode() for row in self.rows[first_row - 1 : last_row]]
        rows[-1] = rows[-1][: getattr(node, "end_col_offset", None)]
        rows[0] = rows[0][getattr(node, "col_offset", 0) :]
        return b"\n".join(rows).decode()


@dataclass(frozen=True, eq=False)
class Step:
    """The place at which a training steps: the backward pass, and the optimizer's statement."""

    backward: ast.stmt
    loss: str  # text of what is differentiated
    optimizer: str | None  # text of what steps; None where parameters are updated by hand
    after: ast.stmt  # the last of both
    loop: ast.For | ast.While | None  # the innermost loop around it, if it is in this function
    function: ast.FunctionDef | None


@cache
def parse(text: str) -> Source:
    """Parse a source. Raises ``SyntaxError``."""
    return Source(text, ast.parse(text), tuple(text.splitlines()))


def apply(source: Source, changes: Sequence[Change]) -> Edited:
    """Return the source with all changes made, and the lines at which they lie."""
    lines = source.text.splitlines()
    spans = _replaced_spans(changes)
    for line, first_byte, last_byte, text in sorted(spans, reverse=True):
        raw = lines[line - 1].encode()
        lines[line - 1] = (raw[:first_byte] + text.encode() + raw[last_byte:]).decode()
    result: list[str] = []
    planted: list[int] = []
    moved: list[int] = []
    insertions = [change for change in changes if isinstance(change, Insertion)]
    touched = {line for line, *_ in spans}
    for number in range(1, len(lines) + 2):
        for insertion in insertions:
            if insertion.line == number:
                added = [
                    f"{' ' * insertion.indent}{row}".rstrip() for row in insertion.text.splitlines()
                ]
                planted += range(len(result) + 1, len(result) + len(added) + 1)
                result += added
        if number <= len(lines):
            result.append(lines[number - 1])
            moved.append(len(result))
            if number in touched:
                planted.append(len(result))
    return Edited("\n".join(result) + "\n", tuple(planted), tuple(moved))


def _replaced_spans(changes: Iterable[Change]) -> list[tuple[int, int, int, str]]:
    """Return line, first and last byte, and new text of each replacement, line by line."""
    spans: list[tuple[int, int, int, str]] = []
    for change in changes:
        if isinstance(change, Replacement):
            node = change.node
            end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
            if end_line == node.lineno:
                spans.append((node.lineno, node.col_offset, end, change.text))
                continue
            spans.append((node.lineno, node.col_offset, 1 << 30, change.text))
            spans += [(line, 0, 1 << 30, "") for line in range(node.lineno + 1, end_line)]
            spans.append((end_line, 0, end, ""))
    return spans


def blocks(tree: ast.AST) -> Iterator[tuple[ast.AST, Block]]:
    """Return each list of statements with the node that it belongs to."""
    for node in ast.walk(tree):
        for block in own_blocks(node):
            yield node, block


def own_blocks(node: ast.AST) -> Iterator[Block]:
    """Return the lists of statements of a node itself."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Return the parent of each node."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def method_call(statement: ast.stmt, name: str) -> ast.Call | None:
    """Return the call if a statement is ``something.name(...)``, its value kept or not."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value if value.func.attr == name else None
    return None


@cache
def step_of(source: Source) -> Step | None:
    """Find the step of a training: the last backward pass, one with an optimizer preferred."""
    above = parents(source.tree)
    steps: list[Step] = []
    for _, block in blocks(source.tree):
        for index, statement in enumerate(block):
            call = method_call(statement, "backward")
            if call is not None:
                following = [*block[index + 1 :], *_statements_after(above, statement)]
                steps.append(_read_step(source, above, statement, following))
    steps.sort(key=lambda step: (step.optimizer is not None, step.backward.lineno))
    return steps[-1] if steps else None


def _read_step(
    source: Source, above: dict[ast.AST, ast.AST], statement: ast.stmt, following: Block
) -> Step:
    call = method_call(statement, "backward")
    loss = _loss_text(source, call) if call is not None else "0"
    optimizer, after = None, statement
    for follower in following:
        stepping = method_call(follower, "step")
        if stepping is None or not isinstance(stepping.func, ast.Attribute):
            continue
        owner = source.segment(stepping.func.value)
        if stepping.args and "scaler" in owner:
            optimizer, after = source.segment(stepping.args[0]), follower
        elif not any(word in owner.lower() for word in _SCHEDULES):
            optimizer, after = owner, follower
    loop, function = _loop_and_function(above, statement)
    return Step(statement, loss, optimizer, after, loop, function)


def _statements_after(above: dict[ast.AST, ast.AST], statement: ast.stmt) -> Block:
    """Return the statements behind the blocks that a statement is nested in, in its function."""
    following: Block = []
    node: ast.AST = statement
    while node in above and not isinstance(above[node], ast.FunctionDef | ast.Module):
        child, node = node, above[node]
        if child is not statement:
            following += _statements_behind(node, child)
    if node is not statement and node in above:
        following += _statements_behind(above[node], node)
    return following


def _statements_behind(owner: ast.AST, child: ast.AST) -> Block:
    for block in own_blocks(owner):
        if child in block:
            return block[block.index(child) + 1 :] if isinstance(child, ast.stmt) else []
    return []


def _loss_text(source: Source, call: ast.Call) -> str:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    if isinstance(owner, ast.Call) and owner.args:  # scaler.scale(loss).backward()
        return source.segment(owner.args[0])
    return source.segment(owner)


def _loop_and_function(
    above: dict[ast.AST, ast.AST], node: ast.AST
) -> tuple[ast.For | ast.While | None, ast.FunctionDef | None]:
    loop: ast.For | ast.While | None = None
    while node in above:
        node = above[node]
        if isinstance(node, ast.For | ast.While) and loop is None:
            loop = node
        if isinstance(node, ast.FunctionDef):
            return loop, node
    return loop, None


def header(source: Source) -> int:
    """Return the line before which module-level code may be put: after the imports at the top."""
    last_line = 0
    for statement in source.tree.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        last_line = statement.end_lineno or statement.lineno
    return last_line + 1
