"""SetArgument: a call in the source gets a value for an argument."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import libcst as cst
from libcst.metadata import Assignment

from gapless.apply.code.project import Project
from gapless.apply.code.references import (
    assigned_value,
    find_binding,
    find_partial,
    is_subclass,
    means,
)
from gapless.apply.code.source import SourceFile, Splice, SyntaxTree, UnwritableError
from gapless.apply.code.values import (
    check_callers,
    find_function,
    find_parameter,
    replace_value,
)
from gapless.apply.texts import write_value
from gapless.model.edit import Location, SetArgument

# Where a call may give an argument without its name, for those that edits set.
_POSITIONS: Final = {
    "DataLoader": {
        "batch_size": 1,
        "shuffle": 2,
        "num_workers": 5,
        "pin_memory": 7,
        "drop_last": 8,
        "timeout": 9,
        "multiprocessing_context": 11,
    },
    "DistributedDataParallel": {
        "bucket_cap_mb": 7,
        "find_unused_parameters": 8,
        "gradient_as_bucket_view": 10,
        "static_graph": 11,
    },
    "zero_grad": {"set_to_none": 0},
}
_ONLY_WITH_WORKERS: Final = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}
_METHODS: Final = ("torch.optim.Optimizer.", "torch.nn.Module.")


def set_argument(project: Project, edit: SetArgument) -> Project:
    """Write an argument wherever an edit is meant. Raises ``UnwritableError``."""
    sites = list(find_calls(project, edit.target, edit.where))
    if edit.target.startswith(_METHODS):
        sites = [site for site in sites if _find_keyword(site[1], edit.name) or site[1].args]
    if not sites:
        raise UnwritableError(f"no call of {edit.target} was found {_say_where(edit.where)}")
    for source in {source.path: source for source, _ in sites}.values():
        splices = [
            splice
            for owner, call in sites
            if owner.path == source.path
            for splice in _splices_for(project, source, call, edit)
        ]
        project = project.splice(source, splices)
    if edit.name == "num_workers" and edit.value == 0:
        return _drop_needless(project, edit)
    return project


def find_calls(
    project: Project, target: str, where: Location | None
) -> Iterator[tuple[SourceFile, cst.Call]]:
    """Yield the calls of a target, at a line of the user's or anywhere."""
    for source in project.sources_of(target, where):
        tree = source.tree
        lines = None if where is None else source.line_span(where.line)
        for call in tree.calls:
            if lines is not None:
                start, end = tree.span(call)
                if start > lines[1] or end < lines[0]:
                    continue
            if _is_call_of(project, tree, call, target):
                yield source, call


def _is_call_of(project: Project, tree: SyntaxTree, call: cst.Call, target: str) -> bool:
    func = call.func
    if target.startswith(_METHODS):
        return isinstance(func, cst.Attribute) and target.endswith(f".{func.attr.value}")
    if isinstance(func, cst.Attribute) and func.attr.value == "__init__":
        return _constructs_base(project, tree, call, target)
    return means(project, tree, func, target) and find_partial(tree, call) is None


def _constructs_base(project: Project, tree: SyntaxTree, call: cst.Call, target: str) -> bool:
    """Return whether a call is ``super().__init__(…)`` in a subclass of the target."""
    func = cst.ensure_type(call.func, cst.Attribute)
    if not isinstance(func.value, cst.Call):
        return means(project, tree, func.value, target)
    is_super = isinstance(func.value.func, cst.Name) and func.value.func.value == "super"
    owner = next((node for node in tree.ancestors(call) if isinstance(node, cst.ClassDef)), None)
    return is_super and owner is not None and is_subclass(project, tree, owner, target)


def _splices_for(
    project: Project, source: SourceFile, call: cst.Call, edit: SetArgument
) -> list[Splice]:
    tree, name = source.tree, edit.name
    keyword = _find_keyword(call, name)
    argument = keyword or _find_positional(tree, call, edit)
    if argument is None:
        argument = _find_in_partial(tree, call, name)
    if argument is not None:
        return replace_value(project, source, argument.value, edit.value)
    value = _find_in_mappings(project, source, call, name)
    if value is not None:
        return replace_value(project, source, value, edit.value)
    if edit.target.startswith(_METHODS):
        return []
    _check_workers(tree, call, edit)
    return append_argument(tree, call, f"{name}={write_value(edit.value)}")


def _find_keyword(call: cst.Call, name: str) -> cst.Arg | None:
    return next(
        (arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None
    )


def _find_positional(tree: SyntaxTree, call: cst.Call, edit: SetArgument) -> cst.Arg | None:
    """Return the argument that a call gives by its position. Raises ``UnwritableError``."""
    position = _POSITIONS.get(edit.target.rpartition(".")[2], {}).get(edit.name)
    if position is None:
        return None
    partial = _called_partial(tree, call)
    if partial is not None:
        position -= sum(arg.keyword is None for arg in partial.args) - 1
        if position < 0 or any(arg.star for arg in partial.args):
            raise UnwritableError("the argument is given to a partial by its position")
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "__init__":
        position += not isinstance(func.value, cst.Call)  # the instance itself comes first
    for number, arg in enumerate(arg for arg in call.args if arg.keyword is None):
        if arg.star == "*":
            raise UnwritableError("the call takes arguments from a sequence")
        if number == position and not arg.star:
            return arg
    return None


def _find_in_partial(tree: SyntaxTree, call: cst.Call, name: str) -> cst.Arg | None:
    """Return the keyword of a partial that is called here alone."""
    partial = _called_partial(tree, call)
    binding = _find_callee(tree, call)
    if partial is None or binding is None or len(binding.references) > 1:
        return None
    return _find_keyword(partial, name)


def _find_callee(tree: SyntaxTree, call: cst.Call) -> Assignment | None:
    is_name = isinstance(call.func, cst.Name)
    return find_binding(tree, call.func, tree.code(call.func)) if is_name else None


def _called_partial(tree: SyntaxTree, call: cst.Call) -> cst.Call | None:
    """Return the ``functools.partial(…)`` that a call calls."""
    if isinstance(call.func, cst.Call):
        return call.func if find_partial(tree, call.func) is not None else None
    binding = _find_callee(tree, call)
    value = assigned_value(tree, binding) if binding is not None else None
    is_partial = value is not None and find_partial(tree, value) is not None
    return value if is_partial and isinstance(value, cst.Call) else None


def _find_in_mappings(
    project: Project, source: SourceFile, call: cst.Call, name: str
) -> cst.BaseExpression | None:
    """Return the value that ``**mapping`` gives. Raises ``UnwritableError`` if nobody can say."""
    for arg in call.args:
        if arg.star == "**":
            value = _find_entry(project, source.tree, arg.value, name)
            if value is not None:
                return value
    return None


def _find_entry(
    project: Project, tree: SyntaxTree, node: cst.BaseExpression, name: str
) -> cst.BaseExpression | None:
    text, uses = tree.code(node), 1
    unknown = UnwritableError(f"the call takes arguments from **{text}, which is not written here")
    if isinstance(node, cst.Name):
        binding = find_binding(tree, node, node.value)
        value = assigned_value(tree, binding) if binding is not None else None
        if binding is not None and _is_open_to_none(project, tree, binding, name):
            return None
        if binding is None or value is None:
            raise unknown
        node, uses = value, len(binding.references)
    entries = _read_entries(tree, node)
    if entries is None:
        raise unknown
    if uses > 1 and (name in entries or _may_change(tree, text)):
        raise UnwritableError(f"the value comes from **{text}, which other code uses too")
    return entries.get(name)


def _is_open_to_none(project: Project, tree: SyntaxTree, binding: Assignment, name: str) -> bool:
    """Return whether a name is the ``**rest`` of a function that no call gives the argument.

    Raises ``UnwritableError`` if one does.
    """
    parameter = find_parameter(tree, binding)
    function = None if parameter is None else find_function(tree, parameter)
    if parameter is None or function is None or function.params.star_kwarg is not parameter:
        return False
    if function.decorators:
        raise UnwritableError("the arguments of a decorated function are not known")
    check_callers(project, tree, function, name, parameter)
    return True


def _may_change(tree: SyntaxTree, name: str) -> bool:
    """Return whether a mapping is used in another way than as ``**mapping``."""
    return any(
        isinstance(node, cst.Name)
        and node.value == name
        and not (isinstance(parent := tree.parents[node], cst.Arg) and parent.star == "**")
        and not isinstance(parent, cst.AssignTarget)
        for node in tree.nodes
    )


def _read_entries(
    tree: SyntaxTree, node: cst.BaseExpression
) -> dict[str, cst.BaseExpression] | None:
    """Return what a literal of a mapping holds by key; None if it is no plain one."""
    if isinstance(node, cst.Dict):
        entries = dict[str, cst.BaseExpression]()
        for element in node.elements:
            if not isinstance(element, cst.DictElement) or not isinstance(
                element.key, cst.SimpleString
            ):
                return None
            entries[str(element.key.evaluated_value)] = element.value
        return entries
    is_dict = isinstance(node, cst.Call) and tree.code(node.func) == "dict"
    if isinstance(node, cst.Call) and is_dict and all(arg.keyword for arg in node.args):
        return {arg.keyword.value: arg.value for arg in node.args if arg.keyword}
    return None


def _check_workers(tree: SyntaxTree, call: cst.Call, edit: SetArgument) -> None:
    """Raise ``UnwritableError`` if the argument is refused by a loader without workers."""
    if edit.name not in ("prefetch_factor", "persistent_workers") or not edit.value:
        return
    if any(arg.star for arg in call.args) or find_partial(tree, call.func) is not None:
        return
    workers = _find_keyword(call, "num_workers") or _find_positional(
        tree, call, SetArgument(edit.target, "num_workers", 0)
    )
    func = tree.code(call.func).rpartition(".")[2]
    has_none = workers is None and func == "DataLoader"
    if has_none or (workers is not None and tree.code(workers.value) == "0"):
        raise UnwritableError(f"the loader has no workers, and {edit.name} needs them")


def append_argument(tree: SyntaxTree, call: cst.Call, text: str) -> list[Splice]:
    """Return what adds an argument to a call, as it is laid out."""
    end = tree.span(call)[1] - 1  # its closing parenthesis
    if not call.args:
        return [Splice(end, end, text)]
    last_argument = call.args[-1]
    last_start, last_end = tree.span(last_argument)
    between = tree.text[last_end:end]
    has_comma = isinstance(last_argument.comma, cst.Comma)
    comma = [] if has_comma else [Splice(last_end, last_end, ",")]
    row = tree.line_start(end)
    if row > last_end and not tree.text[row:end].strip():  # the parenthesis has a line of its own
        indent = tree.indent(last_start)
        tail = "," if has_comma else ""
        return [*comma, Splice(row, row, f"{indent}{text}{tail}{tree.newline}")]
    if (
        len(call.args) == 1
        and isinstance(last_argument.value, cst.GeneratorExp)
        and not last_argument.value.lpar
    ):
        return [Splice(last_start, last_start, "("), Splice(last_end, last_end, f"), {text}")]
    if not has_comma:
        return [Splice(last_end, last_end, f", {text}")]
    at = last_end + between.index(",") + 1 if "," in between else last_end
    return [Splice(at, at, f" {text}" + ("," if "," in between else ""))]


def _drop_needless(project: Project, edit: SetArgument) -> Project:
    """Set to its default what a loader without workers refuses, where it is given."""
    for name, default in _ONLY_WITH_WORKERS.items():
        project = _reset(project, SetArgument(edit.target, name, default, edit.where))
    return project


def _reset(project: Project, edit: SetArgument) -> Project:
    for source, call in find_calls(project, edit.target, edit.where):
        argument = _find_keyword(call, edit.name) or _find_positional(source.tree, call, edit)
        value = argument.value if argument else _find_in_mappings(project, source, call, edit.name)
        if value is not None:
            splices = replace_value(project, source, value, edit.value)
            return _reset(project.splice(source, splices), edit) if splices else project
    return project


def _say_where(where: Location | None) -> str:
    return "in your files" if where is None else f"in line {where.line} of {Path(where.file).name}"
