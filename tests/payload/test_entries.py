"""What a caller did before a function was entered, and where functions are entered."""

import dis
import sys
from collections.abc import Callable

from gapless.payload.stacks import entries


def calling_instruction(_: object = None) -> int:
    """Return where in its code the caller stands."""
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return frame.f_lasti


def call_after_work() -> int:
    """Do something, and call at the next line."""
    numbers = [0]
    numbers = numbers * 2
    return calling_instruction()


def call_from_c() -> list[int]:
    """Let C call for each of some numbers."""
    numbers = [0] * 2
    return list(map(calling_instruction, numbers))


def test_what_was_done_before_a_function_is_entered_stands_at_its_line() -> None:
    code, entered = call_after_work.__code__, calling_instruction.__code__
    assert entries.find_line(code, call_after_work(), entered) == code.co_firstlineno + 3
    assert entries.find_line(call_from_c.__code__, call_from_c()[0], entered) is None


def test_a_function_with_cells_is_entered_behind_them() -> None:
    def enclose(value: int) -> Callable[[], int]:
        return lambda: value

    code = enclose.__code__
    names = [dis.opname[number] for number in code.co_code[::2]]
    assert entries.is_entered(code, 2 * names.index("RESUME"))
    assert not entries.is_entered(code, 2 * names.index("RETURN_VALUE"))
