"""A server of files that waits before each answer, and sends so many bytes a second."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

_STEP: Final = 64 << 10  # bytes sent at a time
_PARTIAL: Final = 206


class SharedLine:
    """A line that all answers share: it takes so many bytes a second."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_s = 0.0  # when it is free again

    def send(self, n_bytes: int) -> None:
        """Wait until it has taken so many bytes."""
        with self._lock:
            now = time.monotonic()
            self._free_s = max(self._free_s, now) + n_bytes / self._bytes_per_s
            wait_s = self._free_s - now
        time.sleep(wait_s)


class ThrottledFiles(BaseHTTPRequestHandler):
    """Answers GET of files below a folder, whole or in a range."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms more
    folder: ClassVar[Path] = Path()
    latency_s: ClassVar[float] = 0.0
    line: ClassVar[SharedLine]

    def do_GET(self) -> None:
        """Send a file, or a part of it."""
        time.sleep(self.latency_s)
        path = self.folder / unquote(self.path).lstrip("/")
        size = path.stat().st_size
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(span[1]), int(span[2])) if span else (0, size - 1)
        self.send_response(_PARTIAL if span else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        with path.open("rb") as file:
            file.seek(first)
            left = last - first + 1
            while left > 0:
                data = file.read(min(_STEP, left))
                self.line.send(len(data))
                self.wfile.write(data)
                left -= len(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401
        """Say nothing."""


@contextmanager
def serve(folder: Path, latency_s: float, bytes_per_s: float) -> Generator[str]:
    """Serve a folder from a process of its own; return its address."""
    command = [sys.executable, "-m", "benchmarks.packed.server", str(folder)]
    process = subprocess.Popen(
        [*command, str(latency_s), str(bytes_per_s)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Serve until killed; print the port first."""
    ThrottledFiles.folder = Path(sys.argv[1]).resolve()
    ThrottledFiles.latency_s = float(sys.argv[2])
    ThrottledFiles.line = SharedLine(float(sys.argv[3]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), ThrottledFiles)
    os.write(1, f"{server.server_port}\n".encode())
    server.serve_forever()


if __name__ == "__main__":
    main()
