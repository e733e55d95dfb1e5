"""An exported model as JSON: an interface that scripts rely on. Keys are added, never renamed."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from gapless.model.model_export import ModelExport
from gapless.model.version import version
from gapless.report.documents.document import json_line

SCHEMA: Final = 1


class ExportObject(Struct, frozen=True):
    """What ``gapless export --json`` prints."""

    schema: int
    gapless: str
    export: ModelExport


def export_json(export: ModelExport) -> str:
    """Return it as one line of JSON."""
    return json_line(ExportObject(SCHEMA, version(), export))


def export_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``gapless export --json``."""
    return msgspec.json.schema(ExportObject)
