"""Replace functions of several modules, each once it is imported; put all back at once."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from ... import imports, tracebacks
from . import edit_counters, targets


class Replacements:
    """What one edit replaces, in modules that may be imported or not."""

    def __init__(self, number: int, target: str) -> None:
        self.number, self.target = number, target
        self.on = True
        self.undos: list[targets.Undo] = []
        edit_counters.register_edit(number, target)

    def replace(self, owner_names: tuple[str, Any], names: Any, make: Callable[..., Any]) -> None:
        """Replace functions of a module, or of a class in it, once the module is imported.

        ``owner_names``: module, and class or None. Of ``names`` those that are there; a trailing *
        stands for any ending.
        """
        imports.when_imported(
            owner_names[0], functools.partial(self._replace_matching, owner_names[1], names, make)
        )

    def _replace_matching(self, class_name: Any, names: Any, make: Any, module: Any) -> None:
        owner = module if class_name is None else getattr(module, class_name, None)
        for name in _match_names(owner, names) if self.on and owner is not None else ():
            self._replace(owner, name, make)

    def _replace(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        try:
            self.undos.append(targets.replace(owner, name, make))
        except Exception as error:
            if tracebacks.from_a_signal_handler(error):
                raise
            edit_counters.record_refusal(self.number, self.target, f"{name}: {error!r}"[:300])

    def off(self) -> None:
        """Put everything back, and replace nothing any more."""
        self.on = False
        targets.undo_all(self.undos)
        edit_counters.record_revert(self.number)


def _match_names(owner: Any, names: Any) -> list[str]:
    """Return the names of functions that are meant; with a star only those of the thing's own."""
    attributes = getattr(owner, "__dict__", {})
    exact = [name for name in names if not name.endswith("*") and callable(getattr(owner, name, 0))]
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    functions = [
        name for name, attribute in attributes.items() if isinstance(attribute, types.FunctionType)
    ]
    return exact + [name for name in functions if prefixes and name.startswith(prefixes)]
