"""Write edits into the user’s files, each by its kind, and compile what comes out."""

import warnings
from collections.abc import Sequence

from gapless.apply.code.project import Project
from gapless.apply.code.source import UnwritableError
from gapless.apply.edits.arguments import set_argument
from gapless.apply.edits.checkpoints import keep_activations
from gapless.apply.edits.copies import unblock_copies
from gapless.apply.edits.models import change_models
from gapless.apply.edits.settings import set_global, set_variable
from gapless.apply.edits.skips import skip_calls
from gapless.apply.edits.vendored import VENDORED_PARTS, wrap_loader
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Wrap


def write_edits(project: Project, edits: Sequence[Edit]) -> tuple[Project, str | None]:
    """Return the project with all of these edits; or as it was, and why it is."""
    changed = project
    try:
        for edit in edits:
            changed = _write_edit(changed, edit)
        _check_syntax(project, changed)
    except UnwritableError as error:
        return project, str(error)
    except RecursionError:
        return project, "the code is nested too deeply to be read"
    return changed, None


def _write_edit(project: Project, edit: Edit) -> Project:
    match edit:
        case SetArgument():
            return set_argument(project, edit)
        case SetGlobal():
            return set_global(project, edit)
        case SetEnv():
            return set_variable(project, edit)
        case Skip():
            return skip_calls(project, edit)
        case _:
            return _wrap(project, edit)


def _wrap(project: Project, edit: Wrap) -> Project:
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


def _check_syntax(before: Project, after: Project) -> None:
    """Raise ``UnwritableError`` if a file that changed can no longer be compiled."""
    for path, source in after.sources.items():
        if source is before.sources[path]:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source.data, path.name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            raise UnwritableError(f"{path.name} would not compile afterwards") from None
