"""A JSON document that ends too early, closed after its last whole object."""

import re
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)
_CLOSERS: Final = {b"{": b"}", b"[": b"]"}


def close_json(data: bytes) -> bytes:
    """Return the text up to its last whole object, with what is open there closed."""
    open_brackets: list[bytes] = []
    whole_end, closing = 0, b""
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in _CLOSERS:
            open_brackets.append(_CLOSERS[token])
        elif not token.startswith(b'"'):
            if not open_brackets or open_brackets.pop() != token:
                break
            if token == b"}":
                whole_end, closing = match.end(), b"".join(reversed(open_brackets))
    return data[:whole_end] + closing
