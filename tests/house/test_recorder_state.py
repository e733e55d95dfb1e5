"""What the recorder keeps in the user's process is in one object, and forks are watched once.

A ratchet: the counts below may only fall. docs/development.md, "The recorder", says where state is.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PAYLOAD: Final = Path(__file__).parents[2] / "src" / "gapless" / "payload"
# Names bound to what may change, in a module and in no part of the state.
MAX_LOOSE: Final = 0
MAX_FORK_HANDLERS: Final = 1
_DISPLAYS: Final = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
# What cannot change, or is replaced by nothing of ours: functions made by a call, numbers, types.
_CONSTANT_CALLS: Final = frozenset(["TypeVar", "guard", "itemgetter", "range", "_declare"])
_KEEP: Final = frozenset(["keep", "keep_fields"])  # of a part of the one object


def parse_payload(package: Path = PAYLOAD) -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))
    }


def loose_state(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module that are bound to what may change, and those it binds anew."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _may_change(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (name for name in names if not name.isupper())
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def _may_change(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return isinstance(value, _DISPLAYS)
    names = {
        node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        for node in ast.walk(value.func)
    }
    return not names & (_CONSTANT_CALLS | _KEEP)


def count_parts(trees: Iterable[ast.Module]) -> int:
    """Return how many parts the one object has."""
    return sum(_calls(tree, name) for tree in trees for name in _KEEP)


def count_fork_handlers(trees: Iterable[ast.Module]) -> int:
    """Return in how many places the interpreter is asked to call something at a fork."""
    return sum(_calls(tree, "register_at_fork") for tree in trees)


def _calls(tree: ast.Module, name: str) -> int:
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(
        name in {getattr(function, "attr", None), getattr(function, "id", None)}
        for function in functions
    )


def test_what_may_change_is_in_the_one_object() -> None:
    loose = [
        f"{path.relative_to(PAYLOAD)}: {name}"
        for path, tree in parse_payload().items()
        for name in loose_state(tree)
    ]
    assert len(loose) <= MAX_LOOSE, "\n".join(loose)


def test_forks_are_watched_in_one_place() -> None:
    assert count_fork_handlers(parse_payload().values()) <= MAX_FORK_HANDLERS


def test_a_dictionary_of_a_module_is_seen() -> None:
    text = "_loaders = {}\n_state = keep(_State())\nLIMITS = {}\ndef f():\n    global _last\n"
    assert list(loose_state(ast.parse(text))) == ["_loaders", "_last"]
