"""What an input costs as JSON: an interface that scripts rely on. Keys are added, never renamed."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from gapless.model.input_costs import InputCosts
from gapless.model.version import version
from gapless.report.documents.document import json_line

SCHEMA: Final = 1


class InputObject(Struct, frozen=True):
    """What ``gapless data --json`` prints."""

    schema: int
    gapless: str
    input: InputCosts


def input_json(costs: InputCosts) -> str:
    """Return it as one line of JSON."""
    return json_line(InputObject(SCHEMA, version(), costs))


def input_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``gapless data --json``."""
    return msgspec.json.schema(InputObject)
