"""Replace functions of several modules, each once it is imported; put all back at once."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from .. import imports, tracebacks
from . import targets, telling


class Several:
    """What one edit replaces, in modules that may be imported or not."""

    def __init__(self, number: int, target: str) -> None:
        self.number, self.target = number, target
        self.on = True
        self.undos: list[targets.Undo] = []
        telling.laid(number, target)

    def replace(self, place: tuple[str, Any], names: Any, make: Callable[..., Any]) -> None:
        """Replace functions of a module, or of a class in it, once the module is imported.

        ``place``: module, and class or None. Of ``names`` those that are there; a trailing *
        stands for any ending.
        """
        imports.when_imported(place[0], functools.partial(self._found, place[1], names, make))

    def _found(self, owner: Any, names: Any, make: Any, module: Any) -> None:
        thing = module if owner is None else getattr(module, owner, None)
        for name in _matching(thing, names) if self.on and thing is not None else ():
            self._replace(thing, name, make)

    def _replace(self, thing: Any, name: str, make: Callable[..., Any]) -> None:
        try:
            self.undos.append(targets.replace(thing, name, make))
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            telling.refused(self.number, self.target, f"{name}: {error!r}"[:300])

    def off(self) -> None:
        """Put everything back, and replace nothing any more."""
        self.on = False
        targets.undo_all(self.undos)
        telling.lifted(self.number)


def _matching(thing: Any, names: Any) -> list[str]:
    """Give the names of functions that are meant; with a star only those of the thing's own."""
    own = getattr(thing, "__dict__", {})
    whole = [name for name in names if not name.endswith("*") and callable(getattr(thing, name, 0))]
    beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
    functions = [name for name, one in own.items() if isinstance(one, types.FunctionType)]
    return whole + [name for name in functions if beginnings and name.startswith(beginnings)]
