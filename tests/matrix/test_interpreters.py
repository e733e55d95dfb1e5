"""What enters the user's processes is written for every Python from 3.9 to 3.14.

Those that are installed here run it (``tests/payload/test_entering.py``); the grammar of the oldest
is asked for by the newest that there is.
"""

import ast
import sys
from pathlib import Path

import pytest

import gapless

ROOT = Path(gapless.__file__).parent
ENTERING = [ROOT / "wire.py", *sorted((ROOT / "payload").rglob("*.py"))]
OUTSIDE = {"torch", "numpy", "_gapless", "sitecustomize"}  # there, or looked for in vain


@pytest.mark.parametrize("path", ENTERING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_it_is_written_in_the_grammar_of_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    imported = {name for node in ast.walk(tree) for name in _imported_packages(node)}
    assert imported - OUTSIDE <= sys.stdlib_module_names


def test_the_grammar_of_later_versions_is_refused() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case _: pass\n", feature_version=(3, 9))


def _imported_packages(node: ast.AST) -> list[str]:
    """Return the packages that a statement imports, but for its neighbours."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []
