"""What is done with a model: in place, before its optimizer is made."""

from collections.abc import Iterator
from typing import Final

import libcst as cst

from gapless.apply.code.project import Project
from gapless.apply.code.references import assigned_value, find_binding, qualify
from gapless.apply.code.source import Splice, SyntaxTree, UnwritableError
from gapless.apply.code.statements import binds_torch, insert_import, put_before
from gapless.apply.texts import write_value
from gapless.model.edit import Wrap

_GIVES_PARAMETERS: Final = ("parameters", "named_parameters")
_SHELLS: Final = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "compile")


def change_models(project: Project, edit: Wrap) -> Project:
    """Write a line about each model before its optimizer. Raises ``UnwritableError``."""
    sites = [
        (source, call)
        for source in project.readable("parameters(")
        for call in source.tree.calls
        if _is_optimizer(source.tree, call)
    ]
    if not sites:
        raise UnwritableError("no optimizer is made in your files, so the model is not known")
    for source in {source.path: source for source, _ in sites}.values():
        splices, tree = list[Splice](), source.tree
        for call in (call for owner, call in sites if owner is source):
            line = _write_line(_find_model(tree, call), edit)
            if line not in source.text:
                splices.append(put_before(tree, call, line))
        if splices and "torch." in splices[0].text and not binds_torch(tree):
            splices += insert_import(source, "import torch", splices[0].start)
        project = project.splice(source, splices)
    return project


def _write_line(model: str, edit: Wrap) -> str:
    if edit.part == "channels-last":
        return f"{model}.to(memory_format=torch.channels_last)"
    options = {name: value for name, value in edit.options.items() if value is not None}
    words = [
        f"{name}={write_value(value)}"
        for name, value in options.items()
        if (name, value) != ("mode", "default")
    ]
    return f"{model}.compile({', '.join(words)})"


def _is_optimizer(tree: SyntaxTree, call: cst.Call) -> bool:
    names = qualify(tree, call.func)
    return any(
        name.startswith("torch.optim.")
        and name.rpartition(".")[2][:1].isupper()
        and ".lr_scheduler" not in name
        and ".swa_utils" not in name
        for name in names
    )


def _find_model(tree: SyntaxTree, call: cst.Call) -> str:
    """Return the model whose parameters an optimizer gets. Raises ``UnwritableError``."""
    models = {tree.code(node): node for node in _parameter_owners(call)}
    if len(models) != 1:
        raise UnwritableError(f"which model {tree.code(call.func)} trains is not written there")
    ((code, node),) = models.items()
    if code == "self":
        raise UnwritableError("the optimizer is made inside of the model")
    root = node
    while isinstance(root, cst.Attribute):
        root = root.value
    if not isinstance(root, cst.Name):
        raise UnwritableError(f"{code} is no name of a model")
    binding = find_binding(tree, root, root.value)
    value = assigned_value(tree, binding) if binding is not None else None
    bindings = [] if value is None else [value]
    if binding is None:
        bindings = _all_values(tree, root)
    if any(isinstance(value, cst.Call) and _is_shell(tree, value) for value in bindings):
        raise UnwritableError(f"{code} is wrapped already where its optimizer is made")
    if isinstance(node, cst.Attribute) and node.attr.value == "module":
        raise UnwritableError(f"{code} is wrapped already where its optimizer is made")
    return code


def _is_shell(tree: SyntaxTree, call: cst.Call) -> bool:
    return tree.code(call.func).rpartition(".")[2] in (*_SHELLS, "DDP", "FSDP")


def _all_values(tree: SyntaxTree, name: cst.Name) -> list[cst.BaseExpression]:
    return [
        node.value
        for node in tree.nodes
        if isinstance(node, cst.Assign)
        and isinstance(node.targets[0].target, cst.Name)
        and node.targets[0].target.value == name.value
    ]


def _parameter_owners(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for child in node.children:
        if (
            isinstance(child, cst.Call)
            and isinstance(child.func, cst.Attribute)
            and child.func.attr.value in _GIVES_PARAMETERS
        ):
            yield child.func.value
        else:
            yield from _parameter_owners(child)
