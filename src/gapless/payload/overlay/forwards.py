"""Put something around the forward of one module; copies and pickles of the module are without it.

What stands in the module is found before its class's ``forward``, by ``torch.compile`` too.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .patch import targets

Around = Callable[[Any, tuple, dict], Any]  # (the forward, args, kwargs) -> result


class _Forward:
    """A forward inside something."""

    def __init__(self, forward: Any, around: Around) -> None:
        functools.update_wrapper(self, forward)
        self.forward, self.around, self.on = forward, around, True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.on:
            return self.forward(*args, **kwargs)
        return self.around(self.forward, args, kwargs)

    def __reduce__(self) -> Any:
        """Copy and pickle as the forward of the copy."""
        return getattr, (self.forward, "__call__")


def put_around(module: Any, around: Around) -> targets.Undo:
    """Let calls of a module's forward go through ``around``; return what reverts it.

    Raises ``TypeError`` for a module of TorchScript, whose forward is not Python's.
    """
    if type(module).__module__.startswith("torch.jit."):
        raise TypeError("a module of TorchScript")
    space = vars(module)
    own_forward = space.get("forward", targets.MISSING)
    replacement = space["forward"] = _Forward(module.forward, around)

    def undo() -> None:
        replacement.on = False
        if space.get("forward") is not replacement:
            return
        if own_forward is targets.MISSING:
            del space["forward"]
        else:
            space["forward"] = own_forward

    return undo
