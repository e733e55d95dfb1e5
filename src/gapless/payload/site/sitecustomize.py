"""Come in with ``PYTHONPATH``, do next to nothing, and give way to the user's own sitecustomize.

Runs in every Python below ``gapless run``, 3.9 to 3.14, where gapless need not be installed. All
that it leaves is a finder which waits until torch is looked for. Our modules are ``_gapless``
then: nothing called ``gapless`` is imported, nothing is shadowed.
"""

import os
import sys

TYPE_CHECKING = False  # typing would be one more import
if TYPE_CHECKING:
    from typing import Any


class _Door:
    """Opens when a module is looked for that the recorder has to do with."""

    names = ("torch", "multiprocessing.spawn", "gapless")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if '"trial":{' in os.environ.get("GAPLESS_OPTIONS", ""):  # its arms draw alike
            self.names += ("random", "numpy")

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in self.names:
            return None
        try:
            sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Door)]
            package = type(sys)("_gapless")
            package.__path__ = [self.folder]
            sys.modules["_gapless"] = package
            from _gapless.payload import boot

            return boot.enter(name, path, target)
        except Exception:  # whatever it is, the user's program goes on without us
            return None


def _enter() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    sys.path_importer_cache.pop(folder, None)
    if os.environ.get("GAPLESS_SPOOL"):
        door: Any = _Door(os.path.dirname(os.path.dirname(folder)))
        sys.meta_path.insert(0, door)


try:  # noqa: SIM105 - contextlib would be one more import
    _enter()
except Exception:
    pass
# The user's own, as if this file were not there: where there is none, the error says so, and
# `site` passes over it as it always does.
del sys.modules[__name__]
import sitecustomize  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
