"""Whether a thread may be waiting for a device: in a call of C that reads a tensor back, or copies.

Such a wait is a loop on a processor: neither a clock nor the system shows it. But the thread has
let go of the GIL for it, and what Python called is written in the code that it executes: a method
of a tensor that returns numbers (``item``, ``tolist``), a copy (``cpu``, ``to``), a truth value, an
index. Pure Python lets go of the GIL nowhere else than where it asks for it again, so whatever of
the same name Python itself does is none.
"""

from __future__ import annotations

import dis
import sys
from typing import Any

from ..process_state import keep_fields

DEVICE = "device"
_READS = frozenset(
    (
        *("item", "tolist", "cpu", "numpy", "to", "cuda", "nonzero", "unique", "synchronize"),
        *("wait", "query", "elapsed_time", "copy_", "pin_memory", "_cuda_synchronize"),
        *("float", "int", "bool", "print", "str", "repr", "format", "min", "max", "any", "all"),
        *("masked_select", "is_nonzero", "equal", "allclose", "bincount", "multinomial", "isin"),
    )
)
# A truth value, an index (of a tensor by a mask), a number in a text: each reads a tensor.
_OPERATIONS = (
    *("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT", "BINARY_SUBSCR", "STORE_SUBSCR"),
    *("FORMAT", "CONTAINS_OP"),
)
_SKIPPED = ("CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP", "KW_NAMES", "RESUME")
NAMED = ("LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME")
_UNITS_OF_ARGUMENT = 4  # of code, that make one argument: ``loss.sum()``
_MAX_UNITS = 16  # looked at before a call
_MAX_PLACES = 5000  # that are remembered
_known = keep_fields(places={})  # with the code, which stays alive


def may_wait(code: Any, instruction: int) -> bool:
    """Return whether a thread without the GIL is in such a call, where its code stands."""
    if not _uses_device():
        return False
    key = (id(code), instruction)
    entry = _known.places.get(key)
    if entry is None:
        if len(_known.places) >= _MAX_PLACES:
            _known.places.clear()
        entry = _known.places[key] = (code, _is_read(code, instruction))
    return entry[1]


def forget() -> None:
    """Forget all places."""
    _known.places.clear()


def _uses_device() -> bool:
    """Return whether the process has begun to use CUDA, which is not asked anything."""
    return bool(getattr(sys.modules.get("torch.cuda"), "_initialized", False))


def _is_read(code: Any, instruction: int) -> bool:
    text = code.co_code
    if not 0 <= instruction < len(text) - 1:
        return False
    operation = dis.opname[text[instruction]]
    if operation.startswith(_OPERATIONS):
        return True
    return operation.startswith("CALL") and _called_name(code, text, instruction) in _READS


def _called_name(code: Any, text: bytes, instruction: int) -> str | None:
    """Return the nearest name before a call that may be what it calls; None: there is none."""
    n_units = min(_MAX_UNITS, 1 + _UNITS_OF_ARGUMENT * text[instruction + 1])
    for offset in range(instruction - 2, -1, -2):
        operation = dis.opname[text[offset]]
        if operation in _SKIPPED:
            continue
        if operation in NAMED:
            name = name_of_load(code, operation, text[offset + 1])
            if name in _READS or n_units == 1:
                return name
        n_units -= 1
        if n_units == 0:
            return None
    return None


def name_of_load(code: Any, operation: str, argument: int) -> str | None:
    """Return the name of a load; the lowest bit of some is a flag (3.11, 3.12)."""
    has_flag = (operation == "LOAD_GLOBAL" and sys.version_info >= (3, 11)) or (
        operation == "LOAD_ATTR" and sys.version_info >= (3, 12)
    )
    index = argument >> 1 if has_flag else argument
    return code.co_names[index] if index < len(code.co_names) else None
