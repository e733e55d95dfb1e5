"""Skip: calls that do nothing are taken out of the source."""

import libcst as cst

from gapless.apply.code.project import Project
from gapless.apply.code.references import is_same, qualify
from gapless.apply.code.source import SourceFile, Splice, SyntaxTree, UnwritableError
from gapless.model.edit import Skip


def skip_calls(project: Project, edit: Skip) -> Project:
    """Take the calls of a target out of the user's files. Raises ``UnwritableError``."""
    if edit.every is not None:
        raise UnwritableError("which calls are kept is a person's decision")
    before = project
    for source in project.sources_of(edit.target, edit.where):
        limit = len(source.text)  # from the last call to the first: what is before one stays there
        while calls := _find_skipped(project.source(source.path), edit, limit):
            changed = project.source(source.path)
            limit = changed.tree.span(calls[-1])[0]
            project = project.splice(changed, [_take_out(changed.tree, calls[-1])])
    if project is before:
        raise UnwritableError(f"no call of {edit.target} was found in your files")
    return project


def _find_skipped(source: SourceFile, edit: Skip, limit: int) -> list[cst.Call]:
    tree, calls = source.tree, list[cst.Call]()
    lines = None if edit.where is None else source.line_span(edit.where.line)
    for node in tree.nodes:
        is_name = isinstance(node, (cst.Name, cst.Attribute))
        if not is_name or not any(is_same(name, edit.target) for name in qualify(tree, node)):
            continue
        parent = tree.parents[node]
        if isinstance(parent, cst.Call) and parent.func is node:
            start, end = tree.span(parent)
            is_there = lines is None or (start <= lines[1] and end >= lines[0])
            if is_there and start < limit:
                calls.append(parent)
        elif not isinstance(parent, (cst.ImportAlias, cst.Attribute)) and lines is None:
            raise UnwritableError(f"{tree.code(node)} is handed on to other code")
    return calls


def _take_out(tree: SyntaxTree, call: cst.Call) -> Splice:
    """Return what takes a call out: its line, or what stands for it where something must."""
    statement = tree.parents[call]
    start, end = tree.span(call)
    if not isinstance(statement, cst.Expr):
        return Splice(start, end, "None")
    line = tree.parents[statement]
    block = tree.parents[line]
    is_alone = isinstance(block, cst.IndentedBlock) and len(block.body) == 1
    is_whole_line = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if is_alone or not is_whole_line:
        return _take_from_line(tree, line, statement, (start, end))
    following = next((at for at in tree.starts if at > end), len(tree.text))
    return Splice(tree.line_start(start), following, "")


def _take_from_line(
    tree: SyntaxTree, line: cst.CSTNode, statement: cst.CSTNode, span: tuple[int, int]
) -> Splice:
    start, end = span
    if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and len(line.body) > 1:
        number = list[cst.CSTNode](line.body).index(statement)
        if number + 1 < len(line.body):  # up to the next statement
            return Splice(start, tree.span(line.body[number + 1])[0], "")
        previous = line.body[number - 1]
        if tree.text[tree.span(previous)[1] : start].strip() == ";":
            return Splice(tree.span(previous)[1], end, "")
    return Splice(start, end, "pass")
