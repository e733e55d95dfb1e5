"""The rooms: no heap of files, and no circle of imports."""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[2] / "src"
MAX_FILES: Final = 15
# One kind a file: a reader looks for one of them, and knows its name.
ONE_KIND: Final = {
    "gapless.commands": "a command",
    "gapless.model": "a noun",
    "gapless.payload.hooks": "a place of the training that is recorded",
    "gapless.payload.overlay.wraps": "a part that an edit wraps",
}
# Likewise, in each of its folders; so many of an area may be many.
CATALOGUED: Final = ("gapless.catalogue.rules.", "gapless.catalogue.fixes.")
# The public names import their rooms when they are asked for (PEP 562).
LAZY: Final = "gapless"


def module_name(path: Path) -> str:
    names = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


MODULES: Final = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(module: str, path: Path) -> Iterator[str]:
    """Yield the modules of ours that a module imports, at its top or within a function."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                origin = ".".join([*above, origin] if origin else above)
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                yield from (
                    name for name in (full if full in MODULES else origin,) if name in MODULES
                )


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements but those that only the type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from statements(node)


def find_circle(arrows: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_folder_is_a_heap() -> None:
    files = Counter(
        name.rpartition(".")[0] for name, path in MODULES.items() if path.name != "__init__.py"
    )
    heaps = {
        folder
        for folder, count in files.items()
        if count > MAX_FILES and not folder.startswith(CATALOGUED)
    }
    assert heaps == {*ONE_KIND}  # an exception that is not needed any more goes


def test_no_modules_import_one_another_in_a_circle() -> None:
    arrows = {name: {*imported(name, path)} - {name, LAZY} for name, path in MODULES.items()}
    assert find_circle(arrows) == []


@pytest.mark.parametrize(
    ("arrows", "circle"),
    [({"a": {"b"}, "b": {"a"}}, 3), ({"a": {"b"}, "b": set[str]()}, 0)],
)
def test_a_circle_is_found(arrows: dict[str, set[str]], circle: int) -> None:
    assert len(find_circle(arrows)) == circle
