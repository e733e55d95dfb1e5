"""The tab's applications (WSGI): its module, the list of entries, the page of one of them."""

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from gapless.errors import GaplessError
from gapless.tab.entries import find_entries

App = Callable[[Mapping[str, Any], Callable[..., object]], Iterable[bytes]]
MODULE: Final = "/index.js"
_KEPT_PAGES: Final = 4  # of some 2 MB
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_making = threading.Lock()  # one page at a time: a study takes several processors as it is


def make_apps(logs: Path) -> dict[str, App]:
    """Return the applications by route, for what is below a folder."""

    def serve_module(_: Mapping[str, Any], start_response: Callable[..., object]) -> list[bytes]:
        module = (Path(__file__).parent / "assets" / "index.js").read_bytes()
        return _respond(start_response, module, "text/javascript")

    def serve_entries(_: Mapping[str, Any], start_response: Callable[..., object]) -> list[bytes]:
        entries = [{"name": entry.name, "kind": entry.kind} for entry in find_entries(logs)]
        return _respond(start_response, msgspec.json.encode(entries), "application/json")

    def serve_page(
        environment: Mapping[str, Any], start_response: Callable[..., object]
    ) -> list[bytes]:
        (name,) = parse_qs(environment.get("QUERY_STRING", "")).get("name", [""])[:1]
        entry = next((entry for entry in find_entries(logs) if entry.name == name), None)
        if entry is None:
            page, status = _message(f"there is no run or trace {name!r} any more"), "404 Not Found"
        else:
            page, status = _page(entry.path, entry.changed_ns), "200 OK"
        return _respond(start_response, page.encode(), "text/html", status, _policy(page))

    return {MODULE: serve_module, "/entries": serve_entries, "/page": serve_page}


def _page(path: Path, changed_ns: int) -> str:
    """Return the page of a run or of traces, or what is wrong with them."""
    with _making:
        try:
            return _make_page(path, changed_ns)
        except (GaplessError, OSError) as error:
            return _message(str(error))


@lru_cache(_KEPT_PAGES)
def _make_page(path: Path, changed_ns: int) -> str:  # noqa: ARG001 - another time is another page
    from gapless.page.study_page import study_page  # noqa: PLC0415 - TensorBoard starts without it
    from gapless.study import Options, open_study  # noqa: PLC0415 - likewise

    return study_page(open_study([path], Options(pictured=True)))


def _message(text: str) -> str:
    style = "font:15px system-ui,sans-serif;margin:2rem"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>gapless</title>'
        f'<body style="{style}"><p>{escape(text)}</p></body></html>'
    )


def _policy(page: str) -> str:
    """Return the policy of a page: only the scripts that are in it, and no request."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in _SCRIPT.findall(page)
    ]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:"
    )


def _respond(
    start_response: Callable[..., object],
    body: bytes,
    kind: str,
    status: str = "200 OK",
    policy: str | None = None,
) -> list[bytes]:
    headers = [
        ("Content-Type", f"{kind}; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if policy is not None:
        headers.append(("Content-Security-Policy", policy))
    start_response(status, headers)
    return [body]
