"""What an edit is about is found once it is imported, by every name, and then put back."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import signal
import sys
import types
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import torch

from gapless.model.edit import Location, SetArgument, SetGlobal, Skip
from gapless.payload import patching
from gapless.payload.overlay.patch import targets
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LIBRARY = """
def asked(x, size=1, *rest, **more):
    return x, size, rest, more

class Thing:
    def __init__(self, size=1):
        self.size = size
    @staticmethod
    def still(size=1):
        return size
    def method(self, size=1):
        return size

class Child(Thing):
    def __init__(self, size):
        super().__init__(size)

colour = "red"
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """Return the name of a package that can be imported, but is not."""
    package = tmp_path / "a_library"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_library.inner"
    for name in [name for name in sys.modules if name.startswith("a_library")]:
        del sys.modules[name]


def import_named(name: str) -> Any:  # noqa: ANN401
    __import__(name)
    return sys.modules[name]


def own_attribute(owner: Any, name: str) -> Any:  # noqa: ANN401
    return owner.__dict__[name]


def test_it_waits_for_the_import(library: str) -> None:
    with apply_edits(SetArgument(f"{library}.asked", "size", 5)) as edit_log:
        assert library not in sys.modules
        module = import_named(library)
        assert module.asked(1) == (1, 5, (), {})
        assert module.asked(1, 2, 3, a=4) == (1, 5, (3,), {"a": 4})
        assert module.asked(x=1, size=2) == (1, 5, (), {})
        assert edit_log.times() == 3
        assert edit_log.values[0]["old"] == 1
    assert module.asked(1, 2) == (1, 2, (), {})


def test_what_was_never_imported_is_told_as_never_done(library: str) -> None:
    with apply_edits(SetArgument(f"{library}.asked", "size", 5)) as edit_log:
        assert edit_log.values[0]["times"] == 0
    assert import_named(library).asked(1) == (1, 1, (), {})


@pytest.mark.parametrize(("name", "call"), [("Thing.still", "still"), ("Thing.method", "method")])
def test_methods_are_edited(library: str, name: str, call: str) -> None:
    kind: Any = import_named(library).Thing
    before: Any = own_attribute(kind, call)
    with apply_edits(SetArgument(f"{library}.{name}", "size", 5)):
        assert getattr(kind(), call)(2) == 5
        assert type(own_attribute(kind, call)) is type(before)
    assert own_attribute(kind, call) is before


def test_a_class_is_edited_as_it_is_made_and_its_children_too(library: str) -> None:
    module = import_named(library)
    before: Any = own_attribute(module.Thing, "__init__")
    with apply_edits(SetArgument(f"{library}.Thing", "size", 5)) as edit_log:
        assert (module.Thing(2).size, module.Child(3).size) == (5, 5)
        assert str(inspect.signature(module.Thing)) == "(size=1)"
        assert edit_log.times() == 2
    assert own_attribute(module.Thing, "__init__") is before


def test_a_value_of_a_module_is_set_again_for_the_training(library: str) -> None:
    module = import_named(library)
    with apply_edits(SetGlobal(f"{library}.colour", "blue")) as edit_log:
        assert module.colour == "blue"
        module.colour = "green"
        torch.optim.SGD([torch.zeros(1)], 0.1)
        assert module.colour == "blue"
        module.colour = "green"
        edit_log.edge()
        assert module.colour == "blue"
        assert edit_log.times() == 3
    assert module.colour == "red"


@pytest.mark.parametrize("name", ["inner.nothing", "inner.Thing.nothing", "inner.asked.nothing"])
def test_what_is_not_there_is_told(library: str, name: str) -> None:
    import_named(library)
    with apply_edits(SetArgument(f"a_library.{name}", "size", 5)) as edit_log:
        assert edit_log.unobserved == [f"edit 0: a_library.{name}: there is no such thing"]


def test_what_a_signal_handler_of_the_users_raises_is_the_users(library: str) -> None:
    def handler(*_: object) -> None:
        raise ValueError("stop, says the user")

    def interrupt(_owner: Any, _name: str) -> targets.Undo:  # noqa: ANN401
        os.kill(os.getpid(), signal.SIGUSR1)
        return lambda: None

    importlib.import_module(library)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(ValueError, match="stop, says the user"):
            targets.on_target(0, f"{library}.asked", interrupt)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_functions_are_found_by_every_name_that_they_were_imported_by(tmp_path: Path) -> None:
    users_module: Any = types.ModuleType("of_the_users")
    users_module.save = torch.save
    sys.modules["of_the_users"] = users_module
    before, signature = torch.save, inspect.signature(torch.save)
    try:
        with apply_edits(SetArgument("torch.save", "_use_new_zipfile_serialization", False)):  # noqa: FBT003
            for number, save in enumerate(
                (torch.save, torch.serialization.save, users_module.save)
            ):
                save(torch.zeros(1), tmp_path / f"{number}.pt")
                assert not zipfile.is_zipfile(tmp_path / f"{number}.pt")
            assert pickle.loads(pickle.dumps(torch.save)) is torch.save  # noqa: S301
            assert inspect.signature(torch.save) == signature
    finally:
        del sys.modules["of_the_users"]
    assert torch.save is torch.serialization.save is before
    torch.save(torch.zeros(1), tmp_path / "plain.pt")
    assert zipfile.is_zipfile(tmp_path / "plain.pt")


def test_who_keeps_an_edited_function_has_the_plain_one_after(tmp_path: Path) -> None:
    with apply_edits(Skip("torch.save")):
        edited_save = torch.save
        assert edited_save(1, tmp_path / "no.pt") is None
    edited_save(1, tmp_path / "yes.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["yes.pt"]


@pytest.mark.parametrize("recorder_first", [True, False])
def test_what_another_has_replaced_in_between_is_put_back_all_the_same(
    library: str,
    recorder_first: bool,
) -> None:
    module = import_named(library)
    before, calls = module.asked, list[object]()

    def record() -> None:
        def look(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            calls.append((*args, *kwargs))

        patching.replace(module, "asked", patching.around("test", look, None))

    if recorder_first:
        record()
    lower = targets.replace(module, "asked", pass_through)
    upper = targets.replace(module, "asked", pass_through)
    if not recorder_first:
        record()
    lower()
    assert module.asked(1) == (1, 1, (), {})
    upper()
    assert module.asked(2) == (2, 1, (), {})
    assert calls == [(1,), (2,)]
    patching.restore_all()
    patching.resume()
    assert module.asked is before


def pass_through(original: Any, switch: targets.Switch) -> Any:  # noqa: ANN401
    def call_original(*args: object) -> object:
        assert switch is not None
        return original(*args)

    return call_original


def test_each_third_call_is_made(library: str) -> None:
    module = import_named(library)
    with apply_edits(Skip(f"{library}.asked", every=3)) as edit_log:
        calls_made = [module.asked(number) is not None for number in range(7)]
        assert calls_made == [False, False, True, False, False, True, False]
        assert edit_log.times() == 5


def test_calls_of_another_line_are_made(library: str) -> None:
    module = import_named(library)

    def call_library() -> Any:  # noqa: ANN401
        return module.asked(1)

    location = Location(__file__, call_library.__code__.co_firstlineno + 1)
    with apply_edits(Skip(f"{library}.asked", where=location)):
        assert call_library() is None
        assert module.asked(1) is not None


def test_a_class_cannot_be_skipped(library: str) -> None:
    import_named(library)
    with apply_edits(Skip(f"{library}.Thing")) as edit_log:
        assert import_named(library).Thing().size == 1
        assert "a class" in edit_log.unobserved[0]
