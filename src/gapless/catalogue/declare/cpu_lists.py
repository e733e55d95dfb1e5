"""Lists of processors as Linux writes them: "0-3,8"."""

from collections.abc import Iterable

from gapless.errors import UsageError


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a list, ascending. Raises ``UsageError`` if it is malformed."""
    numbers = set[int]()
    for span in text.split(","):
        start, dash, end = span.strip().partition("-")
        if not start.isdecimal() or (dash and not end.isdecimal()):
            raise UsageError(f"{text!r} is not a list of processors, such as 0-3,8")
        numbers.update(range(int(start), int(end or start) + 1))
    return tuple(sorted(numbers))


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Return the shortest list that holds these numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)
