"""Parameters of tools: their JSON Schema, and arguments checked by it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from gapless.errors import UsageError

TEXT: Final = "string"
TEXTS: Final = "array"
FLAG: Final = "boolean"
NUMBER: Final = "number"
_MAX_TEXT: Final = 4096  # characters
_MAX_TEXTS: Final = 50
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    TEXT: (str,),
    TEXTS: (list,),
    FLAG: (bool,),
    NUMBER: (int, float),
}


class Parameter(Struct, frozen=True):
    """One parameter of a tool."""

    name: str
    kind: str
    description: str
    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        items = {"items": {"type": TEXT}} if self.kind == TEXTS else {}
        return {"type": self.kind, "description": self.description, **items}


def schema_of(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema() for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }


def check_arguments(parameters: Sequence[Parameter], arguments: Mapping[str, object]) -> None:
    """Raise ``UsageError`` where arguments are not those of a tool."""
    names = {parameter.name: parameter for parameter in parameters}
    for name, value in arguments.items():
        if name not in names:
            names_text = ", ".join(names) or "none"
            raise UsageError(f"there is no argument {name[:80]!r}; there are: {names_text}")
        _check_value(names[name], value)
    for parameter in parameters:
        if parameter.required and arguments.get(parameter.name) is None:
            raise UsageError(f"the argument {parameter.name!r} is missing")


def _check_value(parameter: Parameter, value: object) -> None:
    is_flag = isinstance(value, bool)
    if not isinstance(value, _TYPES[parameter.kind]) or is_flag != (parameter.kind == FLAG):
        raise UsageError(f"{parameter.name!r} must be of type {parameter.kind}")
    if parameter.kind == NUMBER and not 0 < cast("float", value) < float("inf"):
        raise UsageError(f"{parameter.name!r} must be a number above 0")
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    for text in texts if parameter.kind in {TEXT, TEXTS} else []:
        if not isinstance(text, str) or len(text) > _MAX_TEXT or not _is_plain(text):
            raise UsageError(f"{parameter.name!r} takes texts of at most {_MAX_TEXT} characters")
        if text.startswith("-"):
            raise UsageError(f"{parameter.name!r}: {text[:80]!r} begins like an option")
    if len(texts) > _MAX_TEXTS:
        raise UsageError(f"{parameter.name!r} takes at most {_MAX_TEXTS} texts")


def _is_plain(text: str) -> bool:
    """Return whether a text can be an argument of a command: no zero, no half of a pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
