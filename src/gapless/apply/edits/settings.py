"""SetGlobal and SetEnv: settings of torch, and variables of the environment."""

from typing import Final

import libcst as cst

from gapless.apply.code.project import Project
from gapless.apply.code.references import qualify
from gapless.apply.code.source import SourceFile, Splice, SyntaxTree, UnwritableError
from gapless.apply.code.statements import insert_first, insert_setting
from gapless.apply.code.values import find_function, replace_value
from gapless.apply.texts import write_setting, write_value
from gapless.model.edit import SetEnv, SetGlobal

_ALIASES: Final = {  # other names for what a setter sets
    "torch.set_anomaly_enabled": "torch.autograd.set_detect_anomaly",
    "torch.autograd.set_detect_anomaly": "torch.set_anomaly_enabled",
}
_RIVALS: Final = {  # what else sets the same, by another kind of value
    "torch.set_float32_matmul_precision": (
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cuda.matmul.fp32_precision",
        "torch.backends.fp32_precision",
    ),
    "torch.backends.cudnn.allow_tf32": (
        "torch.backends.cudnn.conv.fp32_precision",
        "torch.backends.fp32_precision",
    ),
}
_IN_WORKERS: Final = ("__getitem__", "__getitems__", "worker_init_fn")
_BEFORE_PYTHON: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "DYLD_")


def set_global(project: Project, edit: SetGlobal) -> Project:
    """Write a setting where it is set, or behind the imports of the script."""
    rivals = _RIVALS.get(edit.target, ())
    if any(
        _find_places(source, rival)
        for rival in rivals
        for source in project.readable(rival.rpartition(".")[2])
    ):
        raise UnwritableError("your code sets the same by another name")
    is_set = False
    for source in project.readable(edit.target.rpartition(".")[2]):
        for value in _find_places(source, edit.target):
            if not _is_of_workers(project, source.tree, value):
                splices = replace_value(project, source, value, edit.value)
                is_set = is_set or _is_reached(source.tree, value, is_changed=bool(splices))
        project = project.splice(source, _splices_in(project, source, edit))
    if is_set:
        return project
    script = project.script_source()
    return project.splice(script, [insert_setting(script, write_setting(edit))])


def _splices_in(project: Project, source: SourceFile, edit: SetGlobal) -> list[Splice]:
    return [
        splice
        for value in _find_places(source, edit.target)
        if not _is_of_workers(project, source.tree, value)
        for splice in replace_value(project, source, value, edit.value)
    ]


def _is_reached(tree: SyntaxTree, node: cst.CSTNode, *, is_changed: bool) -> bool:
    """Return whether a setting is made in any case: what is under a condition may not be.

    A function counts if it was seen to set another value; else it may never be called.
    """
    conditions = (cst.If, cst.Try, cst.For, cst.While, cst.Match, cst.ExceptHandler)
    ancestors = list(tree.ancestors(node))
    is_in_function = any(isinstance(ancestor, cst.FunctionDef) for ancestor in ancestors)
    if any(isinstance(ancestor, conditions) for ancestor in ancestors):
        return False
    return is_changed or not is_in_function


def _is_of_workers(project: Project, tree: SyntaxTree, node: cst.CSTNode) -> bool:
    """Return whether code runs in workers of loaders, whose settings are their own."""
    function = find_function(tree, node)
    if function is None:
        return False
    name = function.name.value
    return name in _IN_WORKERS or any(
        f"worker_init_fn={name}" in source.text.replace(" ", "")
        for source in project.sources.values()
    )


def _find_places(source: SourceFile, target: str) -> list[cst.BaseExpression]:
    """Return the values that a setting is given in a file."""
    tree, names = source.tree, {target, _ALIASES.get(target, target)}
    values = list[cst.BaseExpression]()
    for node in tree.nodes:
        if isinstance(node, cst.Assign):
            if any(names & qualify(tree, assignment.target) for assignment in node.targets):
                values.append(node.value)
        elif isinstance(node, cst.Call) and node.args and names & qualify(tree, node.func):
            values.append(node.args[0].value)
    return values


def set_variable(project: Project, edit: SetEnv) -> Project:
    """Write a variable before anything is imported, or where it is set."""
    if edit.name.startswith(_BEFORE_PYTHON):
        raise UnwritableError(f"{edit.name} is read before Python begins")
    script = project.script_source()
    for source in project.readable(edit.name):
        places = _find_variable(source.tree, edit.name)
        if places and edit.value is None:
            raise UnwritableError(f"{source.path.name} sets {edit.name} itself")
        if places:
            splices = [
                splice
                for value in places
                for splice in replace_value(project, source, value, edit.value)
            ]
            return project.splice(source, splices)
    line = write_variable(edit)
    if line in script.text:
        return project
    return project.splice(script, [insert_first(script, line)])


def write_variable(edit: SetEnv) -> str:
    """Return the line that sets a variable, or removes it."""
    name = write_value(edit.name)
    if edit.value is None:
        return f"os.environ.pop({name}, None)"
    return f"os.environ[{name}] = {write_value(edit.value)}"


def _find_variable(tree: SyntaxTree, name: str) -> list[cst.BaseExpression]:
    """Return the values that a variable is given: by subscript, or by ``setdefault``."""
    values = list[cst.BaseExpression]()
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Subscript):
            assignment = node.targets[0].target
            is_environment = "os.environ" in qualify(tree, assignment.value)
            if is_environment and tree.code(assignment.slice[0]).strip("\"'") == name:
                values.append(node.value)
        elif (
            isinstance(node, cst.Call)
            and len(node.args) == 2  # noqa: PLR2004 - name and value
            and "os.environ.setdefault" in qualify(tree, node.func)
            and tree.code(node.args[0].value).strip("\"'") == name
        ):
            values.append(node.args[1].value)
    return values
