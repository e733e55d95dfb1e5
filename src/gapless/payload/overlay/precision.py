"""How exactly products in float32 are, where torch has two styles of names for it (2.9 and on)."""

from __future__ import annotations

import sys


def of_products() -> str:
    """Return what ``torch.get_float32_matmul_precision`` does.

    Raises ``RuntimeError`` where the newer names have set it otherwise: torch then returns what was
    set by the older ones, and computes as the newer ones say.
    """
    torch = sys.modules["torch"]
    older = torch.get_float32_matmul_precision()
    ask = getattr(torch._C, "_get_fp32_precision_getter", None)
    if ask is not None and (ask("cuda", "matmul") == "tf32") is (older == "highest"):
        raise RuntimeError("set by the newer names")
    return older
