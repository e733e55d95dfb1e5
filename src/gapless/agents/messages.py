"""Messages of JSON-RPC 2.0, one a line, as the protocol's stdio transport has them."""

import json
import threading
from collections.abc import Generator, Mapping
from typing import Any, BinaryIO, Final, cast

from msgspec import Struct

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
MAX_LINE: Final = 1 << 20  # bytes of a message
Json = Mapping[str, Any]
MessageId = str | int | None


class RpcError(Struct, frozen=True):
    """Why a request cannot be answered."""

    code: int
    message: str


class RpcMessage(Struct, frozen=True):
    """A request, or a notification if it has no id."""

    method: str
    params: Json
    id: MessageId
    is_request: bool


def read_messages(stream: BinaryIO) -> Generator[RpcMessage | RpcError]:
    """Yield each message of a stream, or what is wrong with it, until the stream ends.

    A line that is too long is passed over in pieces; none of it is kept.
    """
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE)
            yield RpcError(INVALID_REQUEST, f"a message is longer than {MAX_LINE} bytes")
        elif line.strip():
            yield from _read_line(line)


def _read_line(line: bytes) -> Generator[RpcMessage | RpcError]:
    """Yield the message of a line, or those of a batch, each of which is answered by itself."""
    try:
        document: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        yield RpcError(PARSE_ERROR, f"this is no JSON: {error}")
        return
    batch = cast("list[object]", document) if isinstance(document, list) else []
    for entry in batch or cast("list[object]", [document]):
        message = _read_message(entry)
        if message is not None:
            yield message


def _read_message(value: object) -> RpcMessage | RpcError | None:
    """Return one message; ``None``: an answer, of which this server asks for none."""
    if not isinstance(value, dict):
        return RpcError(INVALID_REQUEST, "a message is one object a line")
    fields = cast("dict[str, Any]", value)
    if "method" not in fields and ("result" in fields or "error" in fields):
        return None
    method, params, number = fields.get("method"), fields.get("params", {}), fields.get("id")
    if not isinstance(method, str) or not isinstance(params, dict):
        return RpcError(INVALID_REQUEST, "a request has a method, a text, and params, an object")
    if isinstance(number, bool) or not isinstance(number, str | int | None):
        return RpcError(INVALID_REQUEST, "an id is a text or a whole number")
    return RpcMessage(method, cast("Json", params), number, is_request="id" in fields)


class MessageWriter:
    """Writes messages from any thread, one a line; what no one reads any more is dropped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.is_open = True

    def answer(self, number: MessageId, result: Json) -> None:
        """Answer a request."""
        self._write({"id": number, "result": result})

    def refuse(self, number: MessageId, error: RpcError) -> None:
        """Answer a request with an error."""
        self._write({"id": number, "error": {"code": error.code, "message": error.message}})

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._write({"method": method, "params": params})

    def _write(self, members: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=True).encode() + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                self.is_open = False
