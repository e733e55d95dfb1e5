"""What was measured apart from steps, as JSON: an interface. Keys are added, never renamed."""

from typing import Final

from msgspec import Struct

from gapless.model.input_costs import InputCosts
from gapless.model.model_export import ModelExport
from gapless.model.version import version
from gapless.report.documents.document import json_line

SCHEMA: Final = 1


class InputObject(Struct, frozen=True):
    """What ``gapless data --json`` prints."""

    schema: int
    gapless: str
    input: InputCosts


class ExportObject(Struct, frozen=True):
    """What ``gapless export --json`` prints."""

    schema: int
    gapless: str
    export: ModelExport


def input_json(costs: InputCosts) -> str:
    """Return what an input costs as one line of JSON."""
    return json_line(InputObject(SCHEMA, version(), costs))


def export_json(export: ModelExport) -> str:
    """Return an exported model as one line of JSON."""
    return json_line(ExportObject(SCHEMA, version(), export))
