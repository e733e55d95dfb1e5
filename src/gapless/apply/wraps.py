"""Wrap: what a training goes through."""

from gapless.apply.project import Project
from gapless.apply.source import UnwritableError
from gapless.model.edit import Wrap


def wrap(project: Project, edit: Wrap) -> Project:
    """Write a part around what an edit is about. Raises ``UnwritableError``."""
    del project
    raise UnwritableError(f"how {edit.part} goes into your code is a person's decision")
