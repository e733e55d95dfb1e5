"""What names mean in a file: through imports, aliases, partials and classes of the user's."""

from collections.abc import Iterable
from typing import Final

import libcst as cst
from libcst.metadata import Assignment, QualifiedNameSource

from gapless.apply.code.project import Project
from gapless.apply.code.source import SyntaxTree

_STATEFUL: Final = "torchdata.stateful_dataloader.StatefulDataLoader"
_LOADER: Final = "torch.utils.data.DataLoader"
_MAX_DEPTH: Final = 8  # aliases of aliases


def find_binding(tree: SyntaxTree, node: cst.CSTNode, name: str) -> Assignment | None:
    """Return the only assignment of a name as seen from a node; None if there are more, or none."""
    scope = tree.scopes.get(node)
    if scope is None:
        return None
    bindings = list(scope[name])
    binding = bindings[0] if len(bindings) == 1 else None
    return binding if isinstance(binding, Assignment) else None


def assigned_value(tree: SyntaxTree, binding: Assignment) -> cst.BaseExpression | None:
    """Return what a name is assigned, if it is an assignment to this name alone."""
    target = tree.parents.get(binding.node)
    assign = tree.parents.get(target) if target is not None else None
    if isinstance(target, cst.AnnAssign):
        return target.value
    if isinstance(target, cst.AssignTarget) and isinstance(assign, cst.Assign):
        return assign.value if len(assign.targets) == 1 else None
    return None


def qualify(tree: SyntaxTree, node: cst.CSTNode) -> frozenset[str]:
    """Return the names of modules that an expression refers to, by imports alone."""
    scope = tree.scopes.get(node)
    if scope is None:
        return frozenset()
    found_names = scope.get_qualified_names_for(node)
    names = {name.name for name in found_names if name.source is QualifiedNameSource.IMPORT}
    if not names and not found_names and isinstance(node, cst.Name):
        names = {f"{module}.{node.value}" for module in _star_imports(tree)}
    return frozenset(names)


def is_same(name: str, target: str) -> bool:
    """Return whether a qualified name means the target: a private module may be between."""
    if target == _LOADER and name == _STATEFUL:
        return True
    package, _, attribute = target.rpartition(".")
    between = name.removeprefix(f"{package}.").removesuffix(f".{attribute}")
    is_within = name.startswith(f"{package}.") and name.endswith(f".{attribute}")
    return name == target or (is_within and between.islower())  # no class of another name


def means(
    project: Project, tree: SyntaxTree, node: cst.BaseExpression, target: str, depth: int = 0
) -> bool:
    """Return whether an expression is the target, an alias, a partial or a subclass of it."""
    if depth > _MAX_DEPTH:
        return False
    if any(is_same(name, target) for name in qualify(tree, node)):
        return True
    if isinstance(node, cst.IfExp):
        return any(
            means(project, tree, branch, target, depth + 1) for branch in (node.body, node.orelse)
        )
    if isinstance(node, cst.Call):
        partial = find_partial(tree, node)
        return partial is not None and means(project, tree, partial, target, depth + 1)
    if isinstance(node, cst.Name) and _means_local(project, tree, node, target, depth):
        return True
    return any(_means_in_module(project, name, target, depth) for name in qualify(tree, node))


def find_partial(tree: SyntaxTree, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what ``functools.partial(…)`` is of, if this is such a call."""
    if not isinstance(node, cst.Call) or not node.args or node.args[0].star:
        return None
    is_partial = "functools.partial" in qualify(tree, node.func)
    return node.args[0].value if is_partial else None


def _means_local(
    project: Project, tree: SyntaxTree, node: cst.Name, target: str, depth: int
) -> bool:
    binding = find_binding(tree, node, node.value)
    if binding is None:
        return False
    if isinstance(binding.node, cst.ClassDef):
        return _is_plain_subclass(project, tree, binding.node, target, depth)
    value = assigned_value(tree, binding)
    return value is not None and means(project, tree, value, target, depth + 1)


def is_subclass(
    project: Project, tree: SyntaxTree, node: cst.ClassDef, target: str, depth: int = 0
) -> bool:
    """Return whether a class is a subclass of the target."""
    return any(means(project, tree, base.value, target, depth + 1) for base in node.bases)


def _is_plain_subclass(
    project: Project, tree: SyntaxTree, node: cst.ClassDef, target: str, depth: int
) -> bool:
    """Return whether it is a subclass that is constructed as the target is."""
    has_init = any(
        isinstance(part, cst.FunctionDef) and part.name.value == "__init__"
        for part in node.body.body
    )
    return not has_init and is_subclass(project, tree, node, target, depth)


def _means_in_module(project: Project, name: str, target: str, depth: int) -> bool:
    """Return whether a name of another file of the user's is the target."""
    module_name, _, own_name = name.lstrip(".").rpartition(".")
    source = project.find_module(module_name) if module_name else None
    if source is None:
        return False
    tree = source.tree
    return any(
        means(project, tree, expression, target, depth + 1)
        for expression in _module_values(tree, own_name)
    ) or any(
        _is_plain_subclass(project, tree, node, target, depth + 1)
        for node in tree.wrapper.module.body
        if isinstance(node, cst.ClassDef) and node.name.value == own_name
    )


def _module_values(tree: SyntaxTree, name: str) -> Iterable[cst.BaseExpression]:
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, cst.Name) and target.value == name:
                yield node.value


def _star_imports(tree: SyntaxTree) -> Iterable[str]:
    for node in tree.nodes:
        if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
            yield tree.code(node.module) if node.module is not None else ""
