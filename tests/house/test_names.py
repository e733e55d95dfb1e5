"""Names name things: a variable the noun of what it holds, a function a verb with its object.

A ratchet: the shares below may only fall. CONTRIBUTING.md, "Names", says what a good name is.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
# Pronouns, determiners, adverbs and participles: what a reader must look elsewhere to understand.
PRONOUNS: Final = frozenset(
    [
        "all",
        "another",
        "any",
        "anything",
        "apart",
        "around",
        "asked",
        "at",
        "begun",
        "beside",
        "both",
        "called",
        "done",
        "each",
        "ended",
        "enough",
        "every",
        "everyone",
        "everything",
        "few",
        "found",
        "given",
        "gone",
        "got",
        "held",
        "here",
        "how",
        "kept",
        "known",
        "laid",
        "last",
        "least",
        "left",
        "less",
        "made",
        "many",
        "meant",
        "met",
        "mine",
        "more",
        "most",
        "much",
        "none",
        "nothing",
        "of",
        "one",
        "other",
        "others",
        "own",
        "part",
        "passed",
        "place",
        "rest",
        "said",
        "same",
        "seen",
        "shown",
        "some",
        "something",
        "such",
        "taken",
        "tell",
        "that",
        "them",
        "there",
        "they",
        "thing",
        "things",
        "this",
        "told",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whole",
    ]
)
PARTICIPLE: Final = re.compile(r"[a-z]+(?:ed|en)")
NOUNS: Final = frozenset(("embed", "feed", "listen", "need", "open", "seed", "speed", "token"))
MOST_BINDINGS: Final = 0.0065  # of all that a folder binds, without a name
MOST_FUNCTIONS: Final = 0.003
Trees = dict[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "src").rglob("*.py"))
    }


def bindings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def functions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_pronoun(name: str) -> bool:
    return name.strip("_").lower() in PRONOUNS


def is_bare(function: str) -> bool:
    """Return whether a function's name is a pronoun or a participle without an object."""
    word = function.strip("_")
    return is_pronoun(word) or (PARTICIPLE.fullmatch(word) is not None and word not in NOUNS)


def test_variables_name_what_they_hold(trees: Trees) -> None:
    names = [name for tree in trees.values() for name in bindings(tree) if not is_dunder(name)]
    nameless = Counter(name for name in names if is_pronoun(name))
    assert nameless.total() <= MOST_BINDINGS * len(names), nameless.most_common(20)


def test_functions_say_what_they_do(trees: Trees) -> None:
    names = [name for tree in trees.values() for name in functions(tree) if not is_dunder(name)]
    nameless = Counter(name for name in names if is_bare(name))
    assert nameless.total() <= MOST_FUNCTIONS * len(names), nameless.most_common(20)


def test_pronouns_and_participles_are_recognised() -> None:
    (tree,) = ast.parse("def _told(one, loader): every = [x for found in loader]").body
    assert [name for name in bindings(tree) if is_pronoun(name)] == ["one", "every", "found"]
    assert [name for name in functions(tree) if is_bare(name)] == ["_told"]


def test_a_class_name_stands_for_one_thing(trees: Trees) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    assert {name: of for name, of in places.items() if len(of) > 1} == {}
