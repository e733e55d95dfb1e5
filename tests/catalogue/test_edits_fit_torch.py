"""What the fixes would change is there: in torch by its name, or among the overlay's parts."""

import importlib
import inspect
from pathlib import Path

import pytest

from gapless.catalogue.fixes import FIXES
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap
from gapless.payload.overlay import wraps

EDITS = {
    repr(edit): edit
    for one in FIXES
    for case in one.cases
    for proposal in one(case.facts, case.option)
    for edit in proposal.edits
}
PARTS = {path.stem.replace("_", "-") for path in Path(str(wraps.__file__)).parent.glob("[a-z]*.py")}


def resolved(name: str) -> object:
    """Give what a qualified name stands for. Raises ``AttributeError``."""
    first, *rest = name.split(".")
    found: object = importlib.import_module(first)
    whole = first
    for part in rest:
        whole = f"{whole}.{part}"
        if not hasattr(found, part):
            importlib.import_module(whole)
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
def test_what_an_edit_is_about_is_there(edit: Edit) -> None:
    match edit:
        case SetArgument():
            target = resolved(edit.target)
            assert callable(target)
            assert edit.name in inspect.signature(target).parameters
        case SetGlobal() | Skip():
            resolved(edit.target)
        case Wrap():
            assert edit.part in PARTS
        case SetEnv():
            assert edit.name.isidentifier()


def test_every_part_is_used() -> None:
    used = {edit.part for edit in EDITS.values() if isinstance(edit, Wrap)}
    # Those are for the sandbox of arms, and for checks of predictions.
    assert used == PARTS - {"redirect-logs", "delay"}


def test_what_is_not_there_is_found_out() -> None:
    with pytest.raises(ImportError):
        resolved("torch.backends.cudnn.benchmrk")
