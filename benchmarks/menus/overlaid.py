"""The overlay in this very process, under the name that it has in a user's."""

import importlib
import sys
from types import ModuleType

from gapless.launch.environment import SITE

_PACKAGE = "_gapless"


def overlay() -> ModuleType:
    """Return the module that lays edits and lifts them."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(SITE.parents[1])]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.payload.overlay")


def effect_count(number: int) -> int:
    """Return how often an edit that is laid has taken effect."""
    return importlib.import_module(f"{_PACKAGE}.payload.overlay.telling").times(number)
