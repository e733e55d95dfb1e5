"""What watch and attach print as JSON: keys are added, never renamed."""

from typing import Final

from msgspec import Struct

from gapless.live.outside.attached import Attached
from gapless.live.view import LiveView
from gapless.model.version import version
from gapless.report.documents.document import json_line

SCHEMA: Final = 1


class LiveObject(Struct, frozen=True):
    """The whole document."""

    schema: int
    gapless: str
    view: LiveView


def live_json(view: LiveView) -> str:
    """Return a moment as one line of JSON."""
    return json_line(LiveObject(SCHEMA, version(), view))


class AttachedObject(Struct, frozen=True):
    """What ``gapless attach --json`` prints."""

    schema: int
    gapless: str
    attached: Attached


def attached_json(attached: Attached) -> str:
    """Return what was seen from outside as one line of JSON."""
    return json_line(AttachedObject(SCHEMA, version(), attached))
