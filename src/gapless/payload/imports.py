"""Do something as soon as a module has been imported, or is looked for.

A finder in ``sys.meta_path`` finds nothing itself: it asks the others, and sets ``exec_module`` on
the loader's instance for the length of one import. What the user sees of a module, its spec and
its loader are the objects that they would be.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from . import tracebacks
from .process_state import STATE


class _Finder:
    """Notices that a module is looked for."""

    def __init__(self) -> None:
        self.import_actions: dict[str, list[Callable[[Any], None]]] = {}
        self.request_actions: dict[str, list[Callable[[], None]]] = {}
        self.lent: dict[str, str] = {}  # files of modules that are there unless the user has them
        self.busy: set[str] = set()  # names that the others are asked for

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in self.request_actions:
            for action in self.request_actions.pop(name):
                attempt(name, action)
        if name in self.lent and path is None:
            return _ask_others(self, name, path, target) or _spec_of(name)
        if name not in self.import_actions or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = _ask_others(self, name, path, target)
        finally:
            self.busy.discard(name)
        if spec is not None:
            _attach(name, spec.loader)
        return spec


_finder = STATE.keep(_Finder())


def when_imported(name: str, action: Callable[[Any], None]) -> None:
    """Call ``action(module)`` once module ``name`` is imported: at once if it is already."""
    module = sys.modules.get(name)
    if module is not None and name not in _finder.import_actions:
        attempt(name, action, module)
        return
    _finder.import_actions.setdefault(name, []).append(action)
    _watch()


def when_requested(name: str, action: Callable[[], None]) -> None:
    """Call ``action()`` when module ``name`` is first looked for: at once if it is imported."""
    if name in sys.modules:
        attempt(name, action)
        return
    _finder.request_actions.setdefault(name, []).append(action)
    _watch()


def lend(name: str, file: str) -> None:
    """Let a file be module ``name`` where nobody else has it."""
    _finder.lent[name] = file
    _watch()


def _spec_of(name: str) -> Any:
    from importlib.util import spec_from_file_location

    return spec_from_file_location(name, _finder.lent[name])


def find(name: str, path: Any, target: Any) -> Any:
    """Look for a module as ``sys.meta_path`` does, ours first."""
    return _finder.find_spec(name, path, target)


def forget_all() -> None:
    """Want nothing any more, and leave ``sys.meta_path``."""
    _finder.import_actions.clear()
    _finder.request_actions.clear()
    _finder.lent.clear()
    _leave()


def _watch() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _leave() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _ask_others(finder: _Finder, name: str, path: Any, target: Any) -> Any:
    for candidate in list(sys.meta_path):
        find = getattr(candidate, "find_spec", None)
        spec = None if find is None or candidate is finder else find(name, path, target)
        if spec is not None:
            return spec
    return None


def _attach(name: str, loader: Any) -> None:
    if isinstance(loader, type) or not hasattr(loader, "exec_module"):
        return
    original = loader.exec_module

    def exec_module(module: Any) -> None:
        is_target = getattr(module, "__name__", None) == name
        if is_target and vars(loader).get("exec_module") is exec_module:
            del loader.exec_module
        try:
            original(module)
        except BaseException as error:
            tracebacks.strip(error)
            raise
        if is_target:
            _fire(name, module)

    try:
        loader.exec_module = exec_module
    except AttributeError as error:  # a loader of somebody's without a dictionary
        STATE.note(name, error)


def _fire(name: str, module: Any) -> None:
    for action in _finder.import_actions.pop(name, ()):
        attempt(name, action, module)
    if not (_finder.import_actions or _finder.request_actions or _finder.lent):
        _leave()


def attempt(name: str, action: Callable[..., None], *args: Any) -> None:
    """Do what a module waited for; write down what fails."""
    try:
        action(*args)
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        STATE.note(name, error)
