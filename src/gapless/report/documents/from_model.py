"""Objects of the JSON filled from the model: what both call the same is never written out."""

from typing import Any, TypeVar

from msgspec import Struct

_Object = TypeVar("_Object", bound=Struct)


def fill(kind: type[_Object], *sources: Struct | None, **renamed: Any) -> _Object:  # noqa: ANN401
    """Return an object of the JSON: each field as given, or as in the first source that has it.

    A source that is ``None`` was not observed: what only it would have keeps its default. Raises
    ``TypeError`` where a field without a default is in no source.
    """
    fields = dict[str, Any]()
    for source in sources:
        for name in () if source is None else source.__struct_fields__:
            fields.setdefault(name, getattr(source, name))
    return kind(
        **{name: value for name, value in fields.items() if name in kind.__struct_fields__}
        | renamed
    )
