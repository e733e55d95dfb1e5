"""A stand-in for the part of TensorBoard that the tab meets, where TensorBoard is not installed.

It takes seven packages and 100 MB with it, so that CI does not install it. The stand-in has the
three names of ``tensorboard.plugins.base_plugin`` with the arguments that the tab uses, and serves
a plugin as TensorBoard does: its applications below ``/data/plugin/NAME``, and its module in a
document of its own. ``test_in_tensorboard.py`` shows the same in TensorBoard itself.
"""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from types import ModuleType
from typing import Any, ClassVar, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from msgspec import Struct

_PLUGIN: Final = "/data/plugin/gapless"
_ENTRY: Final = (
    '<!doctype html><link rel="icon" href="data:,"><script type="module">'
    "import('.{path}').then((m) => void m.render());</script>"
)


class TBPlugin(ABC):  # as TensorBoard's: what a plugin must have is abstract
    plugin_name: ClassVar[str | None] = None

    @abstractmethod
    def get_plugin_apps(self) -> dict[str, Any]: ...

    @abstractmethod
    def is_active(self) -> bool: ...


class TBContext(Struct):
    logdir: str | None = None


class FrontendMetadata(Struct):
    disable_reload: bool | None = None
    element_name: str | None = None
    es_module_path: str | None = None
    remove_dom: bool | None = None
    tab_name: str | None = None
    is_ng_component: bool | None = None


def install_stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make ``tensorboard.plugins.base_plugin`` importable, and return it."""
    base = ModuleType("tensorboard.plugins.base_plugin")
    for kind in (TBPlugin, TBContext, FrontendMetadata):
        setattr(base, kind.__name__, kind)
    plugins = ModuleType("tensorboard.plugins")
    plugins.base_plugin = base  # type: ignore[attr-defined]
    for module in (ModuleType("tensorboard"), plugins, base):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "gapless.tab.plugin", raising=False)
    return base


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        del format, args


@contextmanager
def serve_plugin(plugin: Any) -> Generator[str]:  # noqa: ANN401 - of a module made here
    """Serve a plugin, and yield the address of its document."""
    apps = {f"{_PLUGIN}{route}": app for route, app in plugin.get_plugin_apps().items()}
    entry = _ENTRY.format(path=plugin.frontend_metadata().es_module_path)

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path in apps:
            return apps[path](environment, start)
        is_entry = path == f"{_PLUGIN}/"
        start("200 OK" if is_entry else "404 Not Found", [("Content-Type", "text/html")])
        return [entry.encode()] if is_entry else []

    with make_server("127.0.0.1", 0, answer, _Server, _QuietHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{_PLUGIN}/"
        finally:
            server.shutdown()
