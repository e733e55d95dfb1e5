"""The map of the source, drawn from the code: rooms in the order of their imports.

The order is the one that import-linter holds (``pyproject.toml``); what a room is for is the first
sentence of its docstring.
"""

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src/gapless"
_NAME_WIDTH: Final = 16  # of the column of names
_ROW_WIDTH: Final = 110
_INDENT: Final = "  "
_SENTENCE_END: Final = re.compile(r"(?<=[\w)`])\.(?=\s|$)")


def room_map() -> str:
    """Return the rooms as text, upper ones first, each with the rooms inside it."""
    layers = ("\n".join(_layer_rows(names)) for names in _read_layers())
    return "```text\n" + "\n\n".join(layers) + "\n```"


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring on one line, without its full stop or marks."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return _SENTENCE_END.split(paragraph, maxsplit=1)[0].replace("``", "")


def _read_layers() -> list[list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def _layer_rows(names: list[str]) -> Iterator[str]:
    for name in names:
        yield from _room_rows(SOURCE / name, 0)


def _room_rows(path: Path, depth: int) -> Iterator[str]:
    """Yield the rows of a room, or of a single file, and those of the folders in it."""
    module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    label = f"{_INDENT * depth}{path.name}"
    yield from textwrap.wrap(
        f"{label:<{_NAME_WIDTH}}{first_sentence(docstring)}",
        _ROW_WIDTH,
        subsequent_indent=" " * _NAME_WIDTH,
    )
    if path.is_dir():
        for folder in sorted(path.iterdir()):
            if (folder / "__init__.py").is_file():
                yield from _room_rows(folder, depth + 1)
