"""Answer the latest moment over HTTP, until the process ends."""

import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Final

from gapless.errors import UsageError
from gapless.live.metrics.exposition import CONTENT_TYPE, exposition
from gapless.live.view import LiveView, Watcher

PATH: Final = "/metrics"
_TIMEOUT_S: Final = 10.0  # for a request: who sends none keeps no thread
_POLL_S: Final = 0.2  # until a server that is to end notices
_PAGE: Final = b"gapless watch: /metrics\n"


class MetricsServer(ThreadingHTTPServer):
    """A server of one text, which is replaced after each look."""

    daemon_threads = True
    content: bytes = b""

    def __init__(self, address: tuple[str, int]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Answer)

    @property
    def url(self) -> str:
        """Return where it is read."""
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}{PATH}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away."""


class _Answer(BaseHTTPRequestHandler):
    server: MetricsServer  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout: ClassVar[float] = _TIMEOUT_S  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == PATH:
            self._send(HTTPStatus.OK, self.server.content, CONTENT_TYPE)
        else:
            status = HTTPStatus.OK if path == "/" else HTTPStatus.NOT_FOUND
            self._send(status, _PAGE, "text/plain; charset=utf-8")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
        """Log no request."""


def serve_metrics(
    address: tuple[str, int],
    next_watcher: Callable[[LiveView | None], Watcher],
    interval_s: float,
    announce: Callable[[str], None],
) -> None:
    """Look every ``interval_s`` and answer what was seen last, until the process is interrupted.

    ``address``: host and port; port 0 is any that is free.
    ``next_watcher`` gets what was seen last, and says whom to ask next. Raises ``UsageError`` where
    nobody can listen at the address, and what a look raises.
    """
    try:
        server = MetricsServer(address)
    except (OSError, OverflowError) as error:
        address_words = ":".join(map(str, address))
        raise UsageError(
            f"{address_words} cannot be listened at: {error}; name another port"
        ) from None
    watcher, study = next_watcher(None), threading.Thread()
    with server:
        view = watcher.look()
        server.content = exposition(view).encode()
        threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True).start()
        try:
            announce(f"metrics at {server.url}; Ctrl-C ends it")
            while True:
                if not study.is_alive():  # in a thread: it takes longer than a look
                    study = threading.Thread(target=watcher.study_when_due, daemon=True)
                    study.start()
                time.sleep(interval_s)
                watcher = next_watcher(view)
                view = watcher.look()
                server.content = exposition(view).encode()
        finally:
            server.shutdown()
