"""Messages of Protocol Buffers, field by field, without knowing their types.

Whatever the bytes are, a reader gets fields up to the first that cannot be one.
"""

from collections.abc import Iterator
from typing import Final

Value = int | bytes
Field = tuple[int, Value]  # number; a varint or a fixed number as an integer, else the bytes
_VARINT, _BYTES = 0, 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_MAX_VARINT_BITS: Final = 70
_BITS64: Final = (1 << 64) - 1
_SIGN64: Final = 1 << 63


class DamagedError(Exception):
    """Bytes that are no message; ``tail`` is the field that they end in, as far as it goes."""

    def __init__(self, tail: Field | None = None) -> None:
        """Remember what there is."""
        super().__init__()
        self.tail = tail


def read_fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message. Raises ``DamagedError`` where the bytes are none."""
    position, length = 0, len(data)
    while position < length:
        try:
            key, position = _read_varint(data, position)
            kind = key & 7
            if key >> 3 == 0:  # no field has this number: a stretch of zeros is no message
                raise DamagedError
            if kind == _VARINT:
                value, position = _read_varint(data, position)
                yield key >> 3, value
                continue
            size, position = _read_size(data, position, kind)
        except IndexError:
            raise DamagedError from None
        end = position + size
        if end > length:
            raise DamagedError((key >> 3, data[position:]) if kind == _BYTES else None)
        content = data[position:end]
        yield key >> 3, content if kind == _BYTES else int.from_bytes(content, "little")
        position = end


def _read_size(data: bytes, position: int, kind: int) -> tuple[int, int]:
    """Return how long a field is and where it starts. Raises ``IndexError`` for no such kind."""
    if kind == _BYTES:
        return _read_varint(data, position)
    if kind not in _FIXED_BYTES:
        raise IndexError
    return _FIXED_BYTES[kind], position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and where it ends. Raises ``IndexError`` if it does not."""
    value = data[position]
    if value < 0x80:  # noqa: PLR2004  the bit that says that more follows
        return value, position + 1
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value & _BITS64, position
        shift += 7
        if shift >= _MAX_VARINT_BITS:
            raise IndexError


def as_signed(value: Value) -> int:
    """Return a number as int64 holds it; 0 for what is no number."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value & _SIGN64 else value


def as_bytes(value: Value) -> bytes:
    """Return the bytes of a field; none for a number."""
    return value if isinstance(value, bytes) else b""


def as_text(value: Value) -> str:
    """Return the text of a field; none for a number."""
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
