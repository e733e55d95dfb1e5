"""Wrap: what a training goes through, as lines of its own source where there are such."""

from gapless.apply.code.project import Project
from gapless.apply.code.source import UnwritableError
from gapless.apply.edits.checkpoints import keep_activations
from gapless.apply.edits.copies import unblock_copies
from gapless.apply.edits.models import change_models
from gapless.apply.edits.vendored import VENDORED_PARTS, wrap_loader
from gapless.model.edit import Wrap


def wrap(project: Project, edit: Wrap) -> Project:
    """Write a part around what an edit is about. Raises ``UnwritableError``."""
    match edit.part:
        case part if part in VENDORED_PARTS:
            return wrap_loader(project, edit)
        case "channels-last" | "compile":
            return change_models(project, edit)
        case "non-blocking":
            return unblock_copies(project)
        case "checkpointing-off":
            return keep_activations(project)
        case _:
            raise UnwritableError(f"where {edit.part} goes in your code is a person's decision")
