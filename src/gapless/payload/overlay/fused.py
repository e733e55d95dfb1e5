"""A fused optimizer whose tensors it cannot treat: torch says so at its first step only."""

from __future__ import annotations

import sys
from typing import Any

from .patch import edit_counters


def check(number: int, target: str, optimizer: Any, old: Any) -> None:
    """Look at the tensors before the first step; where they do not fit, step as it was written."""
    fits = getattr(sys.modules["torch.optim.optimizer"], "_device_dtype_check_for_fused", None)
    if fits is None or not hasattr(optimizer, "register_step_pre_hook"):
        return
    looked = []  # a hook must not be removed while hooks are called

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if looked:
            return
        looked.append(True)
        try:
            for group in optimizer.param_groups:
                for tensor in group["params"]:
                    fits(tensor)
        except RuntimeError as error:
            for group in optimizer.param_groups:
                group["fused"] = old
            optimizer.defaults["fused"] = old
            edit_counters.record_refusal(number, target, str(error)[:300])

    optimizer.register_step_pre_hook(before)
