"""Lists of processors as Linux writes them: "0-3,8"."""

from collections.abc import Iterable

from gapless.errors import UsageError


def parsed(text: str) -> tuple[int, ...]:
    """Give the numbers of a list, ascending. Raises ``UsageError`` for what is no such list."""
    found = set[int]()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"{text!r} is no list of processors, such as 0-3,8")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def written(numbers: Iterable[int]) -> str:
    """Give the shortest list of some numbers."""
    runs: list[list[int]] = []
    for one in sorted(numbers):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)
