"""Losses: what the first backward passes begin with, kept on their device until the end.

A copy of a scalar, in the order of the device's own work: nothing waits for it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import compiling, imports, patching, recorder

_kept: list[Any] = []
_state: dict[str, Any] = {"most": 0, "passes": 0, "scaled": False}


def begin(most: int) -> None:
    """Look at the first ``most`` backward passes."""
    forget()
    _state["most"] = most
    if most > 0:
        imports.when_imported("torch", _watch)


def forget() -> None:
    """Keep nothing."""
    _kept.clear()
    _state.update(passes=0, scaled=False)


def observed() -> dict[str, Any]:
    """Give the losses, exact, and whether a GradScaler multiplied them; wait for the device."""
    return {"losses": [value.hex() for value in _values()], "scaled": _state["scaled"]}


def _watch(torch: Any) -> None:
    patching.replace(torch.autograd, "backward", _before(_backward))
    patching.replace(torch.amp.GradScaler, "scale", _before(_scales))


def _before(look: Any) -> Any:
    """Give a make-function: ``look(args, kwargs)`` before each call, but not in what is compiled.

    Not that of the hooks, which keeps to one wrapper where several are wanted.
    """
    switch, tracing = patching.hook("losses"), compiling.asker()

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not tracing():
                switch.call(look, args, kwargs)
            return original(*args, **kwargs)

        call.__code__ = call.__code__.replace(co_filename=patching.SKIPPED)
        return call

    return make


def _scales(args: tuple, _kwargs: dict) -> None:
    _state["scaled"] = _state["scaled"] or bool(args[0].is_enabled())


def _backward(args: tuple, kwargs: dict) -> None:
    if _state["passes"] >= _state["most"]:
        return
    roots: Any = args[0] if args else kwargs.get("tensors")
    torch: Any = sys.modules["torch"]
    several = roots if isinstance(roots, (tuple, list)) else (roots,)
    with torch._C.DisableTorchFunction():
        kept = [root.detach().clone() for root in several if _is_loss(torch, root)]
    if kept:
        _state["passes"] += 1
        _kept.extend(kept)


def _is_loss(torch: Any, root: Any) -> bool:
    """Tell whether a root is a number of its own: not spread over ranks, not only replayed."""
    if not isinstance(root, torch.Tensor) or root.numel() != 1 or root.is_complex():
        return False
    if type(root).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        recorder.unseen("losses", f"they are of type {type(root).__qualname__}")
        return False
    if root.is_cuda and torch.cuda.is_current_stream_capturing():
        recorder.unseen("losses", "a CUDA graph replays the backward pass")
        return False
    return True


def _values() -> list[float]:
    """Give the values in order, by one copy from each device."""
    torch: Any = sys.modules.get("torch")
    found: dict[int, float] = {}
    for device in {one.device for one in _kept}:
        places = [at for at, one in enumerate(_kept) if one.device == device]
        for kind in {_kept[at].dtype for at in places}:
            same = [at for at in places if _kept[at].dtype == kind]
            whole = torch.stack([_kept[at].reshape(()) for at in same]).cpu()
            found.update(zip(same, whole.tolist()))
    return [float(found[at]) for at in sorted(found)]
