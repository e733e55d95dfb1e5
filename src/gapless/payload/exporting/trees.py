"""What a forward takes and gives as flat lists of leaves, each with a name."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def take_apart(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of nested containers, and what puts them together again."""
    return _pytree().tree_flatten(tree)


def put_together(leaves: list[Any], spec: Any) -> Any:
    """Put leaves together as they were."""
    return _pytree().tree_unflatten(leaves, spec)


def tensors_of(tree: Any) -> list[Any]:
    """Return the tensors among the leaves."""
    return [leaf for leaf in take_apart(tree)[0] if is_tensor(leaf)]


def is_tensor(leaf: Any) -> bool:
    """Return whether a leaf is a tensor."""
    return isinstance(leaf, sys.modules["torch"].Tensor)


def copy_tensors(tree: Any) -> Any:
    """Return the same with copies of its tensors, which need no gradient."""
    leaves, spec = take_apart(tree)
    copies = [leaf.detach().clone() if is_tensor(leaf) else leaf for leaf in leaves]
    return put_together(copies, spec)


def name_outputs(output: Any) -> list[str]:
    """Return a name for each tensor among the leaves of an output."""
    pytree = _pytree()
    if not hasattr(pytree, "tree_flatten_with_path"):
        return [f"output {number}" for number in range(len(tensors_of(output)))]
    entries, _ = pytree.tree_flatten_with_path(output)
    paths = [pytree.keystr(path) for path, leaf in entries if is_tensor(leaf)]
    return [f"output{path}" for path in paths]


def name_inputs(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return a name for each leaf of the arguments, by the signature of ``forward``."""
    parameters = _parameter_names(module, len(args))
    names: list[str] = []
    for name, value in [*zip(parameters, args), *kwargs.items()]:
        leaves = take_apart(value)[0]
        names += [name] if len(leaves) == 1 else [f"{name}[{n}]" for n in range(len(leaves))]
    return names


def _parameter_names(module: Any, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL_KINDS]
    return [names[n] if n < len(names) else f"input {n}" for n in range(count)]


_POSITIONAL_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def bind(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of ``forward``, as ``torch.export`` names them."""
    signature = inspect.signature(module.forward)
    return dict(signature.bind(*args, **kwargs).arguments)


def _pytree() -> Any:
    return sys.modules["torch.utils._pytree"]
