"""Something is done once a module is imported, and the module is what it would be."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gapless.payload import identities, imports
from gapless.payload.process_state import STATE
from gapless.payload.stacks import locations


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_module.py").write_text("seen = [__spec__.loader, __loader__]\nvalue = 1\n")
    imports.forget_all()  # what other tests of this process wait for and never get
    before = list(sys.meta_path)
    yield
    imports.forget_all()
    STATE.notes.clear()
    sys.modules.pop("a_module", None)
    assert sys.meta_path == before


def test_the_action_gets_the_module_once_it_is_whole_and_nothing_of_ours_stays() -> None:
    modules: list[ModuleType] = []
    imports.when_imported("a_module", modules.append)
    module = importlib.import_module("a_module")
    assert modules == [module]
    assert module.value == 1
    assert module.seen == [module.__loader__, module.__spec__.loader]  # type: ignore[union-attr]
    assert "exec_module" not in vars(module.__loader__)
    assert not any(type(finder).__module__ == imports.__name__ for finder in sys.meta_path)
    imports.when_imported("a_module", modules.append)
    assert modules == [module, module], "at once where it is imported already"


def test_an_action_that_fails_is_noted_and_the_import_goes_on() -> None:
    def fail(_module: ModuleType) -> None:
        raise RuntimeError("ours")

    imports.when_imported("a_module", fail)
    assert importlib.import_module("a_module").value == 1
    assert STATE.notes == [("a_module", "RuntimeError('ours')")]


def test_a_module_that_is_not_there_is_missing_as_ever(tmp_path: Path) -> None:
    imports.when_imported("no_module_of_this_name", print)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_module_of_this_name")
    (tmp_path / "no_module_of_this_name.py").write_text("")
    importlib.invalidate_caches()
    modules: list[ModuleType] = []
    imports.when_imported("no_module_of_this_name", modules.append)
    assert modules == [importlib.import_module("no_module_of_this_name")]
    del sys.modules["no_module_of_this_name"]


def test_that_a_module_is_looked_for_is_told_before_it_runs() -> None:
    order: list[str] = []

    def note_request() -> None:
        order.append("sought")
        imports.when_imported("a_module", lambda _: order.append("imported"))

    imports.when_requested("a_module", note_request)
    importlib.import_module("a_module")
    assert order == ["sought", "imported"]


def test_things_are_known_as_long_as_they_live_and_keep_no_memory() -> None:
    class Entity:
        pass

    entity = Entity()
    number, new = identities.register_entity("thing", entity, {"a": 1}, ("file", 3, "f"))
    assert new
    assert identities.register_entity("thing", entity, {"a": 1}, None) == (number, False)
    assert identities.register_entity("thing", entity, {"a": 2}, ("elsewhere", 9, "g")) == (
        number,
        True,
    )
    assert identities.description("thing", number)["line"] == 3, "where it was made"
    assert identities.find("thing", entity) == number
    for _ in range(1000):
        identities.alias("thing", Entity(), number)
    assert sum(key[0] == "thing" for key in identities._ids.entities) < 10  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    del entity
    assert identities.find("thing", Entity()) is None


def test_the_users_line_is_the_innermost_outside_libraries() -> None:
    def through_a_library() -> locations.CodeLocation | None:
        return next(iter([locations.users_line() for _ in range(1)]))

    location = through_a_library()
    assert location is not None
    assert location[0] == __file__
    namespace = {"users_line": locations.users_line}
    code = compile("def f():\n    return users_line()\n", "/x/site-packages/lib/a.py", "exec")
    exec(code, namespace)  # noqa: S102
    location = namespace["f"]()
    assert location is not None
    assert (location[0], location[2]) == (
        __file__,
        "test_the_users_line_is_the_innermost_outside_libraries",
    )


def test_of_many_things_made_at_one_line_the_last_share_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identities, "MAX_PER_LINE", 3)

    class Entity:
        pass

    line = ("file", 4, "many")
    entities = [Entity() for _ in range(6)]
    numbers = [
        identities.register_entity("one of many", entity, {"size": number}, line)
        for number, entity in enumerate(entities)
    ]
    assert numbers == [(0, True), (1, True), (2, True), (2, False), (2, False), (2, False)]
    assert [identities.find("one of many", entity) for entity in entities] == [0, 1, 2, 2, 2, 2]
    assert identities.register_entity("one of many", entities[4], {"more": 1}, None) == (2, True)
    assert identities.description("one of many", 2)["values"] == {"size": 2, "more": 1}
    assert identities.register_entity("one of many", Entity(), {}, ("file", 5, "many")) == (3, True)
