"""bf16-hook: DDP exchanges gradients as bfloat16, by torch's own hook; they stay as they are."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ..patch import edit_counters, targets

TARGET = "torch.nn.parallel.DistributedDataParallel.register_comm_hook"
_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def apply(number: int, _edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it, but for models that have the hook already."""
    return targets.on_target(number, TARGET, functools.partial(_begin, number))


def _begin(number: int, shells: type, _name: str) -> targets.Undo:
    handles: dict[Any, Any] = {}  # of models that were not called yet

    def wrap_init(original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def spread(shell: Any, *args: Any, **kwargs: Any) -> None:
            original(shell, *args, **kwargs)
            if switch.on:
                handles[id(shell)] = shell.register_forward_pre_hook(register)

        return spread

    def register(shell: Any, _args: Any) -> None:
        """Register the hook before the first pass, unless the training has one of its own."""
        handles.pop(id(shell)).remove()
        _register(number, shell)

    def forget_models() -> None:
        for handle in handles.values():
            handle.remove()

    undos = [targets.replace(shells, "__init__", wrap_init), forget_models]
    return functools.partial(targets.undo_all, undos)


def _register(number: int, shell: Any) -> None:
    __import__(_HOOKS)
    try:
        shell.register_comm_hook(None, sys.modules[_HOOKS].bf16_compress_hook)
    except (RuntimeError, TypeError, ValueError) as error:  # another hook, gloo, an old NCCL
        edit_counters.record_refusal(number, TARGET, str(error).partition("\n")[0])
    else:
        edit_counters.record_effect(number, TARGET, "as they are", "bfloat16")
