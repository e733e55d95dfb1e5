"""Batches of twice the size: by a script's arguments, by what is written in it, or by its loaders.

What shows that they are larger is counted while it runs: the elements that its models are given.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.running import ELEMENTS, RunError
from gapless.model.edit import SetArgument, edit_to_json
from gapless.model.facts import Facts

_LOADER: Final = "torch.utils.data.DataLoader"
BATCH_FACTOR: Final = 2
_MIN_GROWTH: Final = 1.9  # of the elements: a model may be given what no batch is, too
# Of training, as options and variables are called; without signs between words.
_BATCH_NAME: Final = re.compile(
    r"(train(ing)?|mini|pergpu|perdevice)*(batch(size|sz)?|bsz|bs)(train)?"
)
_SHORT_OPTION: Final = "-b"

Edits = tuple[dict[str, Any], ...]


def double_arguments(arguments: Sequence[str]) -> tuple[str, ...] | None:
    """Return the arguments of a command with a doubled batch; ``None`` where they name none."""
    doubled: list[str] = []
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        before = arguments[index - 1] if index else ""
        if equals and _is_batch(name) and value.isdecimal():
            doubled.append(f"{name}={BATCH_FACTOR * int(value)}")
        elif argument.isdecimal() and before.startswith("-") and _is_batch(before):
            doubled.append(str(BATCH_FACTOR * int(argument)))
        else:
            doubled.append(argument)
    return tuple(doubled) if doubled != list(arguments) else None


def double_constants(text: str) -> str | None:
    """Return a source in which the sizes of batches are doubled; ``None`` where it has none."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    constants = sorted(set(_find_sizes(tree)), reverse=True)
    lines = text.splitlines(keepends=True)
    for line, column, value in constants:
        row = lines[line - 1].encode()
        number = str(value).encode()
        if row[column:].startswith(number):
            rest = row[column + len(number) :]
            lines[line - 1] = (row[:column] + b"%d" % (BATCH_FACTOR * value) + rest).decode()
    doubled = "".join(lines)
    return doubled if doubled != text else None


def double_files(root: Path) -> bool:
    """Double the sizes of batches in the sources below a folder; tell whether there are any."""
    n_files = 0
    for path in sorted(root.rglob("*.py")):
        doubled = double_constants(path.read_text(encoding="utf-8", errors="replace"))
        if doubled is not None:
            path.write_text(doubled, encoding="utf-8")
            n_files += 1
    return n_files > 0


def double_batches(run_facts: Facts) -> Edits:
    """Return the edits by which loaders make batches of twice the size; none without a loader."""
    return tuple(
        edit_to_json(
            SetArgument(_LOADER, "batch_size", BATCH_FACTOR * loader.batch_size, loader.location)
        )
        for loader in run_facts.loaders
        if loader.batch_size
    )


def check_growth(spool: Path, spool_beside: Path) -> None:
    """Raise ``RunError`` where a script's models were not given as much more as was asked for."""
    notes = [folder / ELEMENTS for folder in (spool, spool_beside)]
    grown, plain = (int(path.read_text() or 0) if path.exists() else 0 for path in notes)
    if not plain or grown < _MIN_GROWTH * plain:
        raise RunError(f"models were given {grown} elements where they were given {plain} before")


def _is_batch(name: str) -> bool:
    plain_name = name.lstrip("-").replace("-", "").replace("_", "").lower()
    return name == _SHORT_OPTION or _BATCH_NAME.fullmatch(plain_name) is not None


def _find_sizes(tree: ast.AST) -> Iterator[tuple[int, int, int]]:
    """Yield line, column and value of the whole numbers that are called the size of a batch."""
    for node in ast.walk(tree):
        for name, constant in _named_values(node):
            value = constant.value if isinstance(constant, ast.Constant) else None
            if isinstance(constant, ast.Constant) and type(value) is int and _is_batch(name):
                yield constant.lineno, constant.col_offset, value


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    if isinstance(node, ast.Assign):
        yield from ((_name(target), node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign):
        yield _name(node.target), node.value
    elif isinstance(node, ast.Dict):
        keys = (_text(key) for key in node.keys)
        yield from zip(keys, node.values, strict=True)
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        defaults = positional[len(positional) - len(node.defaults) :]
        yield from (
            (given.arg, value) for given, value in zip(defaults, node.defaults, strict=True)
        )
        yield from (
            (given.arg, value)
            for given, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
        )
    elif isinstance(node, ast.Call):
        option = next((text for item in node.args if _is_batch(text := _text(item))), "")
        for keyword in node.keywords:
            is_default = bool(option) and keyword.arg == "default"
            yield option if is_default else keyword.arg or "", keyword.value


def _name(target: ast.AST) -> str:
    return getattr(target, "id", "") or getattr(target, "attr", "")


def _text(node: ast.AST | None) -> str:
    value = getattr(node, "value", None)
    return value if isinstance(value, str) else ""
