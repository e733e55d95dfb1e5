"""Find what faults are planted at: the loaders of a script, and the call of its model."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from benchmarks.planted.source import Block, Replacement, Source, Step, own_blocks, parents


@cache
def loaders(source: Source) -> list[ast.Call]:
    """Return the calls that make a ``DataLoader``, those for training first."""
    above = parents(source.tree)
    calls: list[ast.Call] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args + node.keywords:
            name = source.segment(node.func).rsplit(".", 1)[-1]
            if name == "DataLoader":
                calls.append(node)
    calls.sort(key=lambda call: (_loader_rank(source, above, call), call.lineno))
    return calls


def _loader_rank(source: Source, above: dict[ast.AST, ast.AST], call: ast.Call) -> int:
    """Rank a loader by the name that it is given: training, unnamed, anything else."""
    node = above.get(call)
    target = source.segment(node.targets[0]) if isinstance(node, ast.Assign) else ""
    if "train" in target:
        return 0
    return 2 if "test" in target or "val" in target else 1


def with_keywords(source: Source, call: ast.Call, values: dict[str, str]) -> Replacement:
    """Return the call with keyword arguments set, also where they come in by ``**``."""
    parts = [source.segment(argument) for argument in call.args]
    starred = [keyword for keyword in call.keywords if keyword.arg is None]
    parts += [
        f"{keyword.arg}={source.segment(keyword.value)}"
        for keyword in call.keywords
        if keyword.arg is not None and keyword.arg not in values
    ]
    if starred:
        merged = ", ".join(f"**{source.segment(keyword.value)}" for keyword in starred)
        inner = ", ".join(f'"{name}": {value}' for name, value in values.items())
        parts.append(f"**{{{merged}, {inner}}}")
    else:
        parts += [f"{name}={value}" for name, value in values.items()]
    return Replacement(call, f"{source.segment(call.func)}({', '.join(_flatten_text(parts))})")


def _flatten_text(parts: Iterable[str]) -> list[str]:
    return [
        " ".join(row.split("#")[0].strip() for row in argument.splitlines()) for argument in parts
    ]


@cache
def model_call(source: Source, step: Step) -> tuple[ast.stmt, ast.Call] | None:
    """Find the statement before the backward pass that runs the model, in its block; and the call.

    A model is a name bound to a call of something written LikeThis, or an attribute of that name.
    """
    names = _models(source)
    above = parents(source.tree)
    owner = above.get(step.backward, source.tree)
    hits: list[tuple[ast.stmt, ast.Call]] = []
    for block in own_blocks(owner):
        if step.backward not in block:
            continue
        for statement in _flatten_block(block[: block.index(step.backward)]):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                name = source.segment(statement.value.func)
                if name in names:
                    hits.append((statement, statement.value))
    return hits[-1] if hits else None


def _flatten_block(block: Block) -> Iterator[ast.stmt]:
    for statement in block:
        yield statement
        if isinstance(statement, ast.With):
            yield from _flatten_block(statement.body)


def _models(source: Source) -> set[str]:
    names = {"model", "net", "self.model"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            value: ast.expr = node.value
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                value = value.func.value
            name = source.segment(value.func) if isinstance(value, ast.Call) else ""
            if name[:1].isupper() and not name.endswith(("Loss", "LR", "Loader")):
                names.add(source.segment(node.targets[0]))
    return names
