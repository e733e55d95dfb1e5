"""The overlay in this very process, under the name that it has in a user's."""

import importlib
import sys
from types import ModuleType

from gapless.launch.environment import SITE

_PACKAGE = "_gapless"


def overlay() -> ModuleType:
    """Return the module that applies edits and reverts them."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(SITE.parents[1])]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.payload.overlay")


def effect_count(number: int) -> int:
    """Return how often an applied edit has taken effect."""
    return importlib.import_module(f"{_PACKAGE}.payload.overlay.patch.edit_counters").times(number)
