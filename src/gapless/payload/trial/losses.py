"""Losses: what the first backward passes begin with, kept on their device until the end.

A copy of a scalar, in the order of the device's own work: nothing waits for it.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

from .. import compiling, imports, patching, recorder
from ..process_state import keep


class _BlockMean:
    """A mean loss that was written."""


class _Losses:
    """The losses that are kept, on their device."""

    def __init__(self) -> None:
        self.max_passes = 0  # that are looked at
        self.is_last_kept = False
        # Means that were written: kept, so that each has a number of its own.
        self.means: list[_BlockMean] = []
        self.fork()

    def fork(self) -> None:
        """Keep nothing: what the parent saw, the parent writes."""
        self.first: list[Any] = []
        self.block: list[Any] = []  # those of the steps since ``begin_block``
        self.passes, self.is_scaled, self.last = 0, False, None


_losses = keep(_Losses())


def begin(max_passes: int) -> None:
    """Look at the first ``max_passes`` backward passes."""
    _losses.fork()
    _losses.max_passes = max_passes
    if max_passes > 0:
        imports.when_imported("torch", _watch)


def follow() -> None:
    """Keep the last loss, for ``is_finite``, and those of a block."""
    _losses.is_last_kept = True


def is_finite() -> bool:
    """Return whether the last loss is a finite number, or unknown; wait for the device."""
    loss = _losses.last
    return loss is None or bool(sys.modules["torch"].isfinite(loss).all())


def begin_block() -> None:
    """Forget the losses of the steps before."""
    _losses.block.clear()


def find_block_mean() -> float | None:
    """Return the mean loss since ``begin_block``; wait for the device.

    ``None``: none was seen, a GradScaler multiplies them, or it is no finite number.
    """
    if not _losses.block or _losses.is_scaled:
        return None
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch.no_grad():
        values = [
            loss.reshape(()) for loss in _losses.block if loss.device == _losses.block[0].device
        ]
        mean = float(torch.stack([value.float() for value in values]).mean())
    _losses.block.clear()
    return mean if math.isfinite(mean) else None


def end_block(side: int) -> None:
    """Write the mean loss of a block of a side, a FACT of noun "block loss"; nothing if unknown."""
    mean = find_block_mean()
    if mean is not None:
        _losses.means.append(_BlockMean())
        recorder.fact("block loss", _losses.means[-1], {"side": side, "mean": mean})


def collect_losses() -> dict[str, Any]:
    """Return the losses, exact, and whether a GradScaler multiplied them; wait for the device."""
    return {"losses": [value.hex() for value in _values()], "scaled": _losses.is_scaled}


def _watch(torch: Any) -> None:
    patching.replace(torch.autograd, "backward", _make_before(_backward))
    patching.replace(torch.amp.GradScaler, "scale", _make_before(_scales))


def _make_before(look: Any) -> Any:
    """Return a make-function: ``look(args, kwargs)`` before each call, but not in what is compiled.

    Not that of the hooks, which keeps to one wrapper where several are wanted.
    """
    switch, tracing = patching.hook("losses"), compiling.get_is_compiling()

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not tracing():
                switch.call(look, args, kwargs)
            return original(*args, **kwargs)

        return call

    return make


def _scales(args: tuple, _kwargs: dict) -> None:
    _losses.is_scaled = _losses.is_scaled or bool(args[0].is_enabled())


def _backward(args: tuple, kwargs: dict) -> None:
    roots: Any = args[0] if args else kwargs.get("tensors")
    if _losses.is_last_kept:
        root = roots[0] if isinstance(roots, (tuple, list)) else roots
        _losses.last = root.detach() if hasattr(root, "detach") else None
        if _is_loss(sys.modules["torch"], root):
            _losses.block.append(_losses.last)
    if _losses.passes >= _losses.max_passes:
        return
    torch: Any = sys.modules["torch"]
    root_list = roots if isinstance(roots, (tuple, list)) else (roots,)
    with torch._C.DisableTorchFunction():
        losses = [root.detach().clone() for root in root_list if _is_loss(torch, root)]
    if losses:
        _losses.passes += 1
        _losses.first.extend(losses)


def _is_loss(torch: Any, root: Any) -> bool:
    """Return whether a root is a number of its own: not spread over ranks, not only replayed."""
    if not isinstance(root, torch.Tensor) or root.numel() != 1 or root.is_complex():
        return False
    if type(root).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        recorder.report_unobserved("losses", f"they are of type {type(root).__qualname__}")
        return False
    if root.is_cuda and torch.cuda.is_current_stream_capturing():
        recorder.report_unobserved("losses", "a CUDA graph replays the backward pass")
        return False
    return True


def _values() -> list[float]:
    """Return the values in order, by one copy from each device."""
    torch: Any = sys.modules.get("torch")
    values: dict[int, float] = {}
    for device in {loss.device for loss in _losses.first}:
        indices = [index for index, loss in enumerate(_losses.first) if loss.device == device]
        for kind in {_losses.first[index].dtype for index in indices}:
            group = [index for index in indices if _losses.first[index].dtype == kind]
            stacked = torch.stack([_losses.first[index].reshape(()) for index in group]).cpu()
            values.update(zip(group, stacked.tolist()))
    return [float(values[index]) for index in sorted(values)]
