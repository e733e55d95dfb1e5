"""The user's own functions, with how much of a step each holds: where to look when no rule does."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from gapless.model.study import Study
from gapless.model.tables import Line
from gapless.report.numbers import percent
from gapless.report.text import clean

_FEW: Final = 4
_LEAST: Final = 0.05  # of the window
_ALL: Final = 0.95  # who holds more is the loop itself, or what it calls alone


def function_lines(study: Study) -> Iterator[str]:
    """Give the functions that hold most of the window with stacks, what they call included."""
    own = {(one.file, one.line, one.function) for one in study.sites}
    whole = max((one.host_total_ns for one in study.tables.lines), default=0)
    found = [
        one
        for one in study.tables.lines
        if (one.file, one.line, one.function) in own
        and one.calls
        and _LEAST * whole <= one.host_total_ns <= _ALL * whole
    ]
    found.sort(key=lambda one: (-one.host_total_ns, one.file, one.line))
    if found:
        shown = " · ".join(
            f"{_place(one)} {percent(one.host_total_ns / whole)}" for one in found[:_FEW]
        )
        yield f"your functions, with what they call, as a profiler of Python saw a step: {shown}"


def _place(one: Line) -> str:
    return f"{clean(PurePath(one.file).name)}:{one.line} {clean(one.function)}"
