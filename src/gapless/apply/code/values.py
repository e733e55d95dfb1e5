"""Replace a value where it comes from, if it is written in the source and nowhere else used."""

import re
from collections.abc import Iterator
from typing import Final

import libcst as cst
from libcst.metadata import Assignment, ImportAssignment

from gapless.apply.code.project import Project
from gapless.apply.code.references import assigned_value, find_binding, qualify
from gapless.apply.code.source import SourceFile, Splice, SyntaxTree, UnwritableError, walk
from gapless.apply.texts import write_value
from gapless.model.edit import Value

_BUILTINS: Final = ("min", "max", "int", "len", "bool", "abs", "round", "sum")
_CONSTANTS: Final = ("True", "False", "None")
_ENVIRONMENT: Final = ("os.environ", "os.getenv")
_OF_MACHINE: Final = ("os.cpu_count", "os.sched_getaffinity", "multiprocessing.cpu_count", "torch.")
_PARSERS: Final = ("parse_args", "parse_known_args")


def replace_value(
    project: Project, source: SourceFile, node: cst.BaseExpression, value: Value
) -> list[Splice]:
    """Return what makes an expression this value. Raises ``UnwritableError``.

    A name that is used here only is followed to what it is assigned, a parameter to its default.
    """
    tree, text = source.tree, write_value(value)
    if isinstance(node, cst.Name) and node.value not in _CONSTANTS:
        return _follow_name(project, source, node, value)
    obstacle = find_obstacle(tree, node)
    if obstacle is not None:
        raise UnwritableError(obstacle)
    start, end = tree.span(node)
    return [] if _is_equal(tree.code(node), value) else [Splice(start, end, text)]


def find_obstacle(tree: SyntaxTree, node: cst.BaseExpression) -> str | None:
    """Return why an expression must not be replaced: what it takes its value from."""
    code = tree.code(node)
    if any(name.startswith(_ENVIRONMENT) for part in walk(node) for name in qualify(tree, part)):
        return f"the value comes from the environment ({code})"
    if any("sys.argv" in qualify(tree, part) for part in walk(node)):
        return f"the value comes from the command line ({code})"
    if isinstance(node, cst.IfExp) and any(
        _is_parsed(tree, find_binding(tree, name, name.value)) for name in _names_of(node.test)
    ):
        return f"the value comes from the command line ({code})"
    # Whatever else a condition asks: the edit was measured without it.
    parts = [node.body, node.orelse] if isinstance(node, cst.IfExp) else [node]
    for name in (name for part in parts for name in _names_of(part)):
        binding = find_binding(tree, name, name.value)
        if not _is_of_machine(tree, name) and name.value not in _BUILTINS:
            return _describe_origin(tree, binding, code)
    return None


def _is_of_machine(tree: SyntaxTree, name: cst.Name) -> bool:
    """Return whether what is called asks about the machine alone."""
    use: cst.CSTNode = name
    while isinstance(attribute := tree.parents.get(use), cst.Attribute):
        use = attribute
    return any(found.startswith(_OF_MACHINE) for found in qualify(tree, use))


def _describe_origin(tree: SyntaxTree, binding: Assignment | None, code: str) -> str:
    if _is_parsed(tree, binding):
        return f"the value comes from the command line ({code})"
    return f"the value comes from {code}, which other code may use"


def _is_parsed(tree: SyntaxTree, binding: Assignment | None) -> bool:
    """Return whether a name is what a parser of the command line returned."""
    value = assigned_value(tree, binding) if binding is not None else None
    is_call = isinstance(value, cst.Call)
    return is_call and tree.code(value.func).rpartition(".")[2] in _PARSERS


def _names_of(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the names that an expression reads: not its attributes, not its keywords."""
    if isinstance(node, cst.Name):
        if node.value not in _CONSTANTS:
            yield node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _names_of(node.value)
    else:
        for child in node.children:
            yield from _names_of(child)


def _is_equal(code: str, value: Value) -> bool:
    text = code.strip()
    return text == write_value(value) or (isinstance(value, str) and text == repr(value))


def _follow_name(
    project: Project, source: SourceFile, node: cst.Name, value: Value
) -> list[Splice]:
    tree, name = source.tree, node.value
    binding = find_binding(tree, node, name)
    shared = f"the value is {name}, which other code uses too"
    if binding is None or isinstance(binding, ImportAssignment):
        raise UnwritableError(shared)
    assigned = assigned_value(tree, binding)
    parameter = find_parameter(tree, binding)
    if assigned is None and parameter is None:
        raise UnwritableError(f"the value is {name}, which is not written as one value")
    if len(binding.references) > 1 or _is_used_elsewhere(project, source, binding, name):
        raise UnwritableError(shared)
    if parameter is not None:
        assigned = find_default(project, source, parameter)
    assert assigned is not None  # noqa: S101 - one of both
    return replace_value(project, source, assigned, value)


def _is_used_elsewhere(
    project: Project, source: SourceFile, binding: Assignment, name: str
) -> bool:
    """Return whether another file mentions a global name of this one."""
    is_global = binding.scope is binding.scope.globals
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    return is_global and any(
        source.path.stem in other.text and pattern.search(other.text) is not None
        for other in project.sources.values()
        if other is not source
    )


def find_parameter(tree: SyntaxTree, binding: Assignment) -> cst.Param | None:
    """Return the parameter that a name is."""
    if isinstance(binding.node, cst.Param):
        return binding.node
    parent = tree.parents.get(binding.node)
    return parent if isinstance(parent, cst.Param) else None


def find_default(project: Project, source: SourceFile, parameter: cst.Param) -> cst.BaseExpression:
    """Return the default of a parameter that no call gives. Raises ``UnwritableError``."""
    tree, name = source.tree, parameter.name.value
    function = find_function(tree, parameter)
    if function is None or parameter.default is None:
        raise UnwritableError(f"the value is the argument {name}, which callers give")
    if function.decorators:
        raise UnwritableError(f"the value is the argument {name} of a decorated function")
    check_callers(project, tree, function, name, parameter)
    return parameter.default


def find_function(tree: SyntaxTree, node: cst.CSTNode) -> cst.FunctionDef | None:
    """Return the function that a node is in; None in a module, and in a lambda."""
    functions = (cst.FunctionDef, cst.Lambda)
    enclosing = next((part for part in tree.ancestors(node) if isinstance(part, functions)), None)
    return enclosing if isinstance(enclosing, cst.FunctionDef) else None


def check_callers(
    project: Project, tree: SyntaxTree, function: cst.FunctionDef, name: str, parameter: cst.Param
) -> None:
    """Raise ``UnwritableError`` if calls of a function may give it an argument of that name."""
    called_name, position = _find_role(tree, function, parameter)
    if any(
        _gives(call, called_name, name, position)
        for other in project.readable(called_name)
        for call in other.tree.calls
    ):
        raise UnwritableError(f"the value is the argument {name}, which callers give")
    if any(_is_handed_on(other.tree, called_name) for other in project.readable(called_name)):
        raise UnwritableError(f"{called_name} is handed on, so its callers are not known")


def _find_role(
    tree: SyntaxTree, function: cst.FunctionDef, parameter: cst.Param
) -> tuple[str, int | None]:
    """Return by which name a function is called, and where that call has the parameter."""
    owner = next(iter(_classes_around(tree, function)), None)
    positional = [*function.params.posonly_params, *function.params.params]
    position = positional.index(parameter) if parameter in positional else None
    if owner is None:
        return function.name.value, position
    name = owner.name.value if function.name.value == "__init__" else function.name.value
    return name, None if position is None else position - 1


def _classes_around(tree: SyntaxTree, function: cst.FunctionDef) -> Iterator[cst.ClassDef]:
    for node in tree.ancestors(function):
        if isinstance(node, cst.FunctionDef):
            return
        if isinstance(node, cst.ClassDef):
            yield node


def _gives(call: cst.Call, called_name: str, name: str, position: int | None) -> bool:
    """Return whether a call may give this argument to a function of that name."""
    if _last_name(call.func) != called_name:
        return False
    positional = [argument for argument in call.args if argument.keyword is None]
    return (
        any(argument.star for argument in call.args)
        or any(argument.keyword and argument.keyword.value == name for argument in call.args)
        or (position is not None and len(positional) > position)
    )


def _is_handed_on(tree: SyntaxTree, name: str) -> bool:
    """Return whether a function is mentioned but in its definition, calls and imports."""
    for node in tree.nodes:
        if not isinstance(node, cst.Name) or node.value != name:
            continue
        use: cst.CSTNode = node
        if isinstance(attribute := tree.parents[use], cst.Attribute) and attribute.attr is node:
            use = attribute
        parent = tree.parents[use]
        is_plain = isinstance(parent, (cst.FunctionDef, cst.ClassDef, cst.ImportAlias)) or (
            isinstance(parent, cst.Call) and parent.func is use
        )
        if not is_plain:
            return True
    return False


def _last_name(node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.Name):
        return node.value
    return node.attr.value if isinstance(node, cst.Attribute) else None
