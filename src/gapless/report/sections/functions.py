"""The user's own functions, with how much of a step each holds: where to look when no rule does."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from gapless.model.study import Study
from gapless.model.tables import Line
from gapless.report.text.numbers import percent
from gapless.report.text.text import clean

_MAX_FUNCTIONS: Final = 4
_MIN_WINDOW_SHARE: Final = 0.05  # of the window
_MAX_WINDOW_SHARE: Final = 0.95  # a function with more is the loop itself, or all that it calls


def function_lines(study: Study) -> Iterator[str]:
    """Return the functions that hold most of the window with stacks, what they call included."""
    user_functions = {(site.file, site.line, site.function) for site in study.sites}
    longest_ns = max((line.host_total_ns for line in study.tables.lines), default=0)
    lines = [
        line
        for line in study.tables.lines
        if (line.file, line.line, line.function) in user_functions
        and line.calls
        and _MIN_WINDOW_SHARE * longest_ns <= line.host_total_ns <= _MAX_WINDOW_SHARE * longest_ns
    ]
    lines.sort(key=lambda line: (-line.host_total_ns, line.file, line.line))
    if lines:
        functions = " · ".join(
            f"{_function_ref(line)} {percent(line.host_total_ns / longest_ns)}"
            for line in lines[:_MAX_FUNCTIONS]
        )
        yield (
            f"your functions, with what they call, as a profiler of Python saw a step: {functions}"
        )


def _function_ref(line: Line) -> str:
    return f"{clean(PurePath(line.file).name)}:{line.line} {clean(line.function)}"
