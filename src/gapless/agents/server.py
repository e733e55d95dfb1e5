"""The server: it answers one client until that closes its input."""

import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, cast

from gapless.agents.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Json,
    MessageId,
    MessageWriter,
    RpcError,
    RpcMessage,
    read_messages,
)
from gapless.agents.parameters import check_arguments, schema_of
from gapless.agents.processes import CancelledError, ToolCall
from gapless.agents.tools import AgentRights, AgentTool, list_tools
from gapless.errors import GaplessError
from gapless.model.version import version

_VERSIONS: Final = ("2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, newest first
_MAX_CALLS: Final = 4  # at a time
_MAX_TEXT: Final = 200_000  # characters of an answer
_INSTRUCTIONS: Final = (
    "gapless records trainings of PyTorch and says why they wait. Begin with `findings` of the "
    "last run; a cause names its line of source and fixes; `explain` tells about either. Predicted "
    "gains are intervals; `try` measures, and `fix` shows the patch."
)


class AgentServer:
    """The state of a session: which calls go on."""

    def __init__(self, rights: AgentRights, output: BinaryIO) -> None:
        self._rights = rights
        self._tools = {tool.name: tool for tool in list_tools(rights)}
        self._writer = MessageWriter(output)
        self._calls: dict[MessageId, threading.Event] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def serve(self, stream: BinaryIO) -> None:
        """Answer until the input ends; then what goes on is stopped."""
        try:
            for message in read_messages(stream):
                if isinstance(message, RpcError):
                    self._writer.refuse(None, message)
                else:
                    self._receive(message)
                if not self._writer.is_open:
                    break
        finally:
            with self._lock:
                for is_cancelled in self._calls.values():
                    is_cancelled.set()
            for thread in self._threads:
                thread.join()

    def _receive(self, message: RpcMessage) -> None:
        if not message.is_request:
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
        elif message.method == "tools/call":
            self._begin_call(message)
        else:
            self._answer(message)

    def _answer(self, message: RpcMessage) -> None:
        if message.method == "initialize":
            self._writer.answer(message.id, self._introduce(message.params))
        elif message.method == "ping":
            self._writer.answer(message.id, {})
        elif message.method == "tools/list":
            self._writer.answer(message.id, {"tools": list(map(_describe, self._tools.values()))})
        else:
            error = RpcError(METHOD_NOT_FOUND, f"there is no method {message.method[:80]!r}")
            self._writer.refuse(message.id, error)

    def _introduce(self, params: Json) -> Json:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "gapless", "version": version()},
            "instructions": _INSTRUCTIONS,
        }

    def _cancel(self, number: object) -> None:
        with self._lock:
            is_cancelled = self._calls.get(number) if isinstance(number, str | int) else None
        if is_cancelled is not None:
            is_cancelled.set()

    def _begin_call(self, message: RpcMessage) -> None:
        """Answer in a thread, so that the client can cancel and ask for more meanwhile."""
        tool = self._tools.get(str(message.params.get("name")))
        arguments: object = message.params.get("arguments") or {}
        with self._lock:
            error = self._find_fault(message, tool, arguments)
            if error is None:
                self._calls[message.id] = threading.Event()
        if error is not None or tool is None or not isinstance(arguments, dict):
            self._writer.refuse(message.id, error or RpcError(INVALID_PARAMS, "no such tool"))
            return
        fields = cast("dict[str, Any]", arguments)
        thread = threading.Thread(target=self._call, args=(message, tool, fields))
        self._threads = [old for old in self._threads if old.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _find_fault(
        self, message: RpcMessage, tool: AgentTool | None, arguments: object
    ) -> RpcError | None:
        if tool is None:
            name, names_text = str(message.params.get("name"))[:80], ", ".join(self._tools)
            return RpcError(INVALID_PARAMS, f"there is no tool {name!r}; there are: {names_text}")
        if not isinstance(arguments, dict):
            return RpcError(INVALID_PARAMS, "arguments are one object")
        if message.id in self._calls:
            return RpcError(INVALID_REQUEST, f"the request {message.id!r} goes on already")
        if len(self._calls) >= _MAX_CALLS:
            return RpcError(INVALID_REQUEST, f"{_MAX_CALLS} tools run already; wait for one")
        return None

    def _call(self, message: RpcMessage, tool: AgentTool, arguments: Mapping[str, Any]) -> None:
        is_cancelled = self._calls[message.id]
        result: Json | None = None
        try:
            result = self._run_tool(message, tool, arguments, is_cancelled)
        finally:
            with self._lock:
                del self._calls[message.id]
            if result is None:  # what was raised is printed by the thread
                error = RpcError(INTERNAL_ERROR, "a mistake of gapless; see its standard error")
                self._writer.refuse(message.id, error)
            elif not is_cancelled.is_set():
                self._writer.answer(message.id, result)

    def _run_tool(
        self,
        message: RpcMessage,
        tool: AgentTool,
        arguments: Mapping[str, Any],
        is_cancelled: threading.Event,
    ) -> Json:
        meta: object = message.params.get("_meta")
        fields = cast("dict[str, object]", meta) if isinstance(meta, dict) else {}
        token = fields.get("progressToken")

        def report(seconds: float) -> None:
            if isinstance(token, str | int):
                params = {"progressToken": token, "progress": round(seconds, 1)}
                message_text = f"{tool.name}: {seconds:.0f} s"
                self._writer.notify("notifications/progress", {**params, "message": message_text})

        try:
            check_arguments(tool.parameters, arguments)
            text = tool.run(arguments, self._rights, ToolCall(is_cancelled, report))
        except (GaplessError, CancelledError) as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return {"content": [{"type": "text", "text": _cut(text)}], "isError": False}


def _describe(tool: AgentTool) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": schema_of(tool.parameters),
        "annotations": {
            "readOnlyHint": tool.reads_only,
            "destructiveHint": not tool.reads_only,
            "openWorldHint": False,
        },
    }


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}\n… cut after {_MAX_TEXT} of {len(text)} characters"
