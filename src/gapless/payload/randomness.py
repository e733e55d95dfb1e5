"""Whether something has advanced a random generator: states before and after are compared.

Looking changes nothing: states are copied out. Looked at are torch's generator of the CPU, NumPy's
global one and that of ``random``, as far as the program has imported them.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def states() -> list[Any]:
    """Give the states of the process's generators, to be compared with ``==``."""
    return [_torch(), _numpy(), _python()]


def _torch() -> bytes | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    state = torch.default_generator.get_state()
    # Not an operator of torch's: it would appear in the user's profile, or raise in a mode.
    return ctypes.string_at(state.data_ptr(), state.nbytes)


def _numpy() -> Any:
    random = sys.modules.get("numpy.random")
    if random is None:
        return None
    state = random.get_state(legacy=False)
    inner = state["state"]
    if "key" in inner:
        return inner["pos"], inner["key"].tobytes(), state.get("has_gauss"), state.get("gauss")
    return repr(state)


def _python() -> Any:
    random = sys.modules.get("random")
    return None if random is None else random.getstate()
