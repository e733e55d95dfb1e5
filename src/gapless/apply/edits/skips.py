"""Skip: calls that do nothing are taken out of the source."""

import libcst as cst

from gapless.apply.code.project import Project
from gapless.apply.code.references import is_same, qualify
from gapless.apply.code.source import Source, Splice, Tree, UnwritableError
from gapless.model.edit import Skip


def skip_calls(project: Project, edit: Skip) -> Project:
    """Take the calls of a target out of the user's files. Raises ``UnwritableError``."""
    if edit.every is not None:
        raise UnwritableError("which calls are kept is a person's decision")
    sources = project.readable() if edit.where is None else (project.source_at(edit.where),)
    n_calls = 0
    for source in sources:
        calls = _find_skipped(source, edit)
        n_calls += len(calls)
        project = project.spliced(source, _take_out(source.tree, calls))
    if not n_calls:
        raise UnwritableError(f"no call of {edit.target} was found in your files")
    return project


def _find_skipped(source: Source, edit: Skip) -> list[cst.Call]:
    tree, calls = source.tree, list[cst.Call]()
    lines = None if edit.where is None else source.line_span(edit.where.line)
    for node in tree.nodes:
        is_name = isinstance(node, (cst.Name, cst.Attribute))
        if not is_name or not any(is_same(name, edit.target) for name in qualify(tree, node)):
            continue
        parent = tree.parents[node]
        if isinstance(parent, cst.Call) and parent.func is node:
            start, end = tree.span(parent)
            if lines is None or (start <= lines[1] and end >= lines[0]):
                calls.append(parent)
        elif not isinstance(parent, (cst.ImportAlias, cst.Attribute)) and lines is None:
            raise UnwritableError(f"{tree.code(node)} is handed on to other code")
    return calls


def _take_out(tree: Tree, calls: list[cst.Call]) -> list[Splice]:
    """Return what takes calls out: their lines, or what stands for them within one."""
    splices, gone = list[Splice](), set[cst.CSTNode]()
    statements = {call: tree.parents[call] for call in calls}
    gone.update(node for node in statements.values() if isinstance(node, cst.Expr))
    for call, statement in statements.items():
        start, end = tree.span(call)
        line = tree.parents[statement]
        if not isinstance(statement, cst.Expr):
            splices.append(Splice(start, end, "None"))
        elif not _is_whole_line(line) or _is_alone(tree, line, gone):
            splices.append(_take_from_line(tree, line, statement, (start, end)))
        else:
            splices.append(_whole_line(tree, start, end))
    return splices


def _is_whole_line(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _is_alone(tree: Tree, line: cst.CSTNode, gone: set[cst.CSTNode]) -> bool:
    """Return whether nothing would be left in the block, or it is the first that stays so."""
    block = tree.parents[line]
    if isinstance(block, cst.Module) or not isinstance(block, cst.IndentedBlock):
        return False
    kept = [
        node
        for node in block.body
        if not (isinstance(node, cst.SimpleStatementLine) and {*node.body} <= gone)
    ]
    return not kept and block.body[0] is line


def _take_from_line(
    tree: Tree, line: cst.CSTNode, statement: cst.CSTNode, span: tuple[int, int]
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


def _whole_line(tree: Tree, start: int, end: int) -> Splice:
    following = next((at for at in tree.starts if at > end), len(tree.text))
    return Splice(tree.line_start(start), following, "")
