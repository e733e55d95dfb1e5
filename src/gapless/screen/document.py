"""A moment as JSON: what ``gapless watch --once --json`` prints. Keys are added, never renamed."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gapless.live.view import LiveView
from gapless.model.version import version
from gapless.report.documents.document import json_line

SCHEMA: Final = 1


@dataclass(frozen=True)
class LiveObject:
    """The whole document."""

    schema: int
    gapless: str
    view: LiveView


def live_json(view: LiveView) -> str:
    """Return a moment as one line of JSON."""
    return json_line(LiveObject(SCHEMA, version(), view))


def live_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return msgspec.json.schema(LiveObject)
