"""What the fixes would change is there: in torch by its name, or among the overlay's parts."""

import importlib
import inspect
from pathlib import Path

import pytest

from gapless.catalogue.examples.reading import read_cases
from gapless.catalogue.fixes import FIXES
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap
from gapless.payload.overlay import wraps

EDITS = {
    repr(edit): edit
    for fix in FIXES
    for case in read_cases(fix)
    for proposal in fix(case.facts, case.option)
    for edit in proposal.edits
}
PARTS = {path.stem.replace("_", "-") for path in Path(str(wraps.__file__)).parent.glob("[a-z]*.py")}


def resolve_name(name: str) -> object:
    """Return what a qualified name stands for. Raises ``AttributeError``."""
    package, *attributes = name.split(".")
    target: object = importlib.import_module(package)
    qualified_name = package
    for attribute in attributes:
        qualified_name = f"{qualified_name}.{attribute}"
        if not hasattr(target, attribute):
            importlib.import_module(qualified_name)
        target = getattr(target, attribute)
    return target


@pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
def test_what_an_edit_is_about_is_there(edit: Edit) -> None:
    match edit:
        case SetArgument():
            target = resolve_name(edit.target)
            assert callable(target)
            assert edit.name in inspect.signature(target).parameters
        case SetGlobal() | Skip():
            resolve_name(edit.target)
        case Wrap():
            assert edit.part in PARTS
        case SetEnv():
            assert edit.name.isidentifier()


def test_every_part_is_used() -> None:
    used_parts = {edit.part for edit in EDITS.values() if isinstance(edit, Wrap)}
    # Those are for the sandbox of arms, and for checks of predictions.
    assert used_parts == PARTS - {"redirect-logs", "delay"}


def test_what_is_not_there_is_found_out() -> None:
    with pytest.raises(ImportError):
        resolve_name("torch.backends.cudnn.benchmrk")
