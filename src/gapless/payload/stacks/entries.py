"""What had been done when a thread was seen where it enters a function: something of its caller's.

A thread that is asked for the GIL gives it where a function of Python is entered, or behind a call
into C. What holds the GIL in between (a long list that is let go of, a large slice) is over by
then, and stands at an earlier line, often the one before: there, what the caller executed last.
"""

from __future__ import annotations

import dis
from typing import Any

from ..process_state import keep_fields
from . import device_waits

# Names and constants that are loaded, and what only goes with that: it takes no time.
_TRIVIAL = ("LOAD_", "CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP", "KW_NAMES", "COPY")
_ENDS = ("RESUME", "JUMP", "POP_JUMP", "RETURN", "RAISE", "SEND", "YIELD")  # other code came before
_MAX_UNITS = 40  # of code, looked at before a call
_MAX_ENTRY = 4  # bytes of code, where no operation shows it (before Python 3.11)
_MAX_PLACES = 5000  # that are remembered
_cache = keep_fields(places={})  # with the code, which stays alive


def is_entered(code: Any, instruction: int) -> bool:
    """Return whether a function has just been entered: nothing of it has been done."""
    text = code.co_code
    if not 0 <= instruction < len(text) - 1:
        return instruction <= _MAX_ENTRY
    name, argument = dis.opname[text[instruction]], text[instruction + 1]
    return instruction <= _MAX_ENTRY or (name == "RESUME" and argument == 0)


def find_line(caller: Any, instruction: int, entered: Any) -> int | None:
    """Return the line of what a caller did before its call; None: what came before is not known.

    Where C calls a function, C may have worked for long. So the caller must name the function.
    """
    key = (id(caller), instruction)
    entry = _cache.places.get(key)
    if entry is None:
        if len(_cache.places) >= _MAX_PLACES:
            _cache.places.clear()
        line = _find_line(caller, instruction, entered.co_name)
        entry = _cache.places[key] = (caller, line)
    line: int | None = entry[1]
    return line


def leave_entered(
    stack: list[tuple[Any, int]], instruction: int, calling: int
) -> list[tuple[Any, int]]:
    """Return a stack without a function that is just entered: it has done nothing yet."""
    if len(stack) == 1 or not is_entered(stack[0][0], instruction):
        return stack
    caller, line = stack[1]
    earlier = find_line(caller, calling, stack[0][0])
    return [(caller, line if earlier is None else earlier), *stack[2:]]


def forget() -> None:
    """Forget all places."""
    _cache.places.clear()


def _find_line(caller: Any, instruction: int, called: str) -> int | None:
    text, is_named = caller.co_code, False
    call = instruction
    while call > 0 and dis.opname[text[call]] == "CACHE":  # Python 3.11 stands at the end of it
        call -= 2
    for offset in range(call - 2, max(-1, call - 2 * _MAX_UNITS), -2):
        operation = dis.opname[text[offset]]
        if operation.startswith(_ENDS):
            return None
        if operation.startswith(device_waits.NAMED):
            name = device_waits.name_of_load(caller, operation, text[offset + 1])
            is_named = is_named or name == called
        elif not operation.startswith(_TRIVIAL):
            return _line_of(caller, offset) if is_named else None
    return None


def _line_of(code: Any, offset: int) -> int | None:
    lines = [line for start, line in dis.findlinestarts(code) if start <= offset]
    return lines[-1] if lines else None
