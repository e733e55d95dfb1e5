"""Come in with ``PYTHONPATH``, do next to nothing, and give way to the user's own sitecustomize.

Runs in every Python below ``gapless run``, 3.9 to 3.14, where gapless need not be installed. Our
modules are ``_gapless`` here: nothing called ``gapless`` is imported, nothing is shadowed.
"""

import os
import sys


def _enter() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != here]
    sys.path_importer_cache.pop(here, None)
    if "_gapless" in sys.modules or not os.environ.get("GAPLESS_SPOOL"):
        return
    package = type(sys)("_gapless")
    package.__path__ = [os.path.dirname(os.path.dirname(here))]
    sys.modules["_gapless"] = package
    from _gapless.payload import boot

    boot.enter()


try:  # noqa: SIM105 - contextlib would be one more import
    _enter()
except Exception:  # whatever it is, the user's program goes on without us
    pass
# The user's own, as if this file were not there: where there is none, the error says so, and
# `site` passes over it as it always does.
del sys.modules[__name__]
import sitecustomize  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
