"""Activation checkpointing taken out of the source: the function is called itself."""

from typing import Final

import libcst as cst

from gapless.apply.code.project import Project
from gapless.apply.code.references import is_same, qualify
from gapless.apply.code.source import Splice, SyntaxTree, UnwritableError

_TARGET: Final = "torch.utils.checkpoint.checkpoint"
_OPTIONS: Final = (
    "use_reentrant",
    "preserve_rng_state",
    "context_fn",
    "determinism_check",
    "debug",
    "early_stop",
)


def keep_activations(project: Project) -> Project:
    """Replace ``checkpoint(f, x, …)`` by ``f(x)``. Raises ``UnwritableError``."""
    n_calls = 0
    for source in project.readable("checkpoint"):
        tree = source.tree
        calls = [
            call
            for call in tree.calls
            if any(is_same(name, _TARGET) for name in qualify(tree, call.func))
        ]
        n_calls += len(calls)
        project = project.splice(source, [_call_itself(tree, call) for call in calls])
    if not n_calls:
        raise UnwritableError(f"no call of {_TARGET} was found in your files")
    return project


def _call_itself(tree: SyntaxTree, call: cst.Call) -> Splice:
    start, end = tree.span(call)
    if "#" in tree.text[start:end] or not call.args or call.args[0].star or call.args[0].keyword:
        raise UnwritableError("the call of checkpoint is laid out in a way that would be lost")
    function, *more_arguments = call.args
    text = tree.code(function.value)
    if not isinstance(function.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        text = f"({text})"
    arguments_kept = [
        tree.text[slice(*tree.span(arg))]
        for arg in more_arguments
        if arg.keyword is None or arg.keyword.value not in _OPTIONS
    ]
    return Splice(start, end, f"{text}({', '.join(arguments_kept)})")
