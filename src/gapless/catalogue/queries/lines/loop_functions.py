"""The function, and the line of it, that holds a loop over data."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.queries import samples, step_lines, windows
from gapless.catalogue.queries.loops import (
    MIN_CALL_SHARE,
    MIN_CALLS,
    NODE,
    PYTHON,
    Loop,
    calling_ns,
)
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine
from gapless.model.study import LOOPED
from gapless.model.tables import Line

_LAMBDA: Final = "<lambda>"


def find_loop_function(evidence: Evidence, loop: Loop) -> Location | None:
    """Return the user's function that holds the loop: the innermost that the loop does not call.

    A function that the loop calls is called as often as its operators. Without stacks of a window
    it is the user's function whose own Python was sampled most, if that is half of the loop's time.
    """
    if not evidence.study.sites:
        return _find_sampled_function(evidence, calling_ns(evidence, loop))
    files = {site.file for site in evidence.study.sites}
    own_lines = [line for line in evidence.study.tables.lines if line.file in files and line.calls]
    location = _find_direct_caller(evidence, loop, own_lines)
    if location is not None and _holds_another(evidence, loop, location):
        location = loop.holder
    if location is not None:
        return _refine_line(evidence, location, calling_ns(evidence, loop))
    location = _find_line_around(evidence, loop)
    if location is not None:
        return location
    if loop.holder is not None:
        return _refine_line(evidence, loop.holder, calling_ns(evidence, loop))
    rare_lines = [
        line for line in own_lines if line.calls <= windows.count_steps(evidence) * MIN_CALLS / 2
    ]
    python_ns = evidence.study.account.leaves.get(PYTHON, 0)
    covering_lines = [
        line for line in rare_lines if line.host_total_ns >= loop.python_share * python_ns / 2
    ]
    innermost = min(covering_lines, key=lambda line: line.host_total_ns, default=None)
    return (
        None if innermost is None else Location(innermost.file, innermost.line, innermost.function)
    )


def _find_sampled_function(evidence: Evidence, loop_ns: float) -> Location | None:
    """Return the function whose own Python was sampled most; of little of it there is no telling.

    It may as well be one beside the loop, that calls no operators.
    """
    top = samples.find_top_code(evidence)
    if top is None or top.kind != "python" or top.library is not None:
        return None
    location = samples.code_location(top)
    if location is None or samples.code_ns(evidence, top) < MIN_CALL_SHARE * loop_ns:
        return None
    return replace(location, function=(location.function or "").rpartition(".")[2])


def _holds_another(evidence: Evidence, loop: Loop, location: Location) -> bool:
    """Return whether a function holds a loop that is not the one in question."""
    place = location.file, location.function
    return (
        loop.holder is not None
        and place != (loop.holder.file, loop.holder.function)
        and any(
            site.name.startswith(LOOPED) and place == (site.file, site.function)
            for site in evidence.study.sites
        )
    )


def _find_direct_caller(
    evidence: Evidence, loop: Loop, own_lines: Iterable[Line]
) -> Location | None:
    """Return the function that calls most of the loop's operators directly, many in each call.

    In the function that calls the backward pass the operators of that are counted, too: another
    function that calls as many of them comes first.
    """
    loop_calls = dict(loop.main_operators)
    calls_by_function, first_lines = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
    for site in evidence.study.sites:
        if site.name in loop_calls:
            key = site.file, site.function
            calls_by_function[key] += site.calls
            first_lines[key] = min(first_lines.get(key, site.line), site.line)
    total_calls = sum(loop_calls.values()) * windows.count_steps(evidence)
    passes = {
        (site.file, site.function) for site in evidence.study.sites if site.name.startswith(NODE)
    }
    for (file, function), count in sorted(
        calls_by_function.most_common(), key=lambda item: item[0] in passes
    ):
        n_entries = sum(
            line.calls for line in own_lines if (line.file, line.function) == (file, function)
        )
        if count >= max(MIN_CALL_SHARE * total_calls, MIN_CALLS * n_entries):
            return Location(file, first_lines[file, function], function)
    return None


def _find_line_around(evidence: Evidence, loop: Loop) -> Location | None:
    """Return the sampled line at which a lambda is written that holds the body of a loop.

    What calls it in between may be a library's.
    """
    loop_calls = dict(loop.main_operators)
    calls_by_place = Counter[tuple[str, int, str]]()
    for site in evidence.study.sites:
        if site.name in loop_calls:
            calls_by_place[site.file, site.line, site.function] += site.calls
    min_calls = MIN_CALL_SHARE * sum(loop_calls.values()) * windows.count_steps(evidence)
    for (file, number, function), count in calls_by_place.most_common(1):
        for line in evidence.hot_lines if function == _LAMBDA and count >= min_calls else ():
            is_place = line.line == number and line.file.replace("\\", "/").endswith(file)
            if is_place and not line.function.endswith(_LAMBDA):
                return Location(line.file, line.line, line.function)
    return None


def _refine_line(evidence: Evidence, location: Location, loop_ns: float) -> Location:
    """Return the line at which a function was sampled calling what a step calls many times.

    Stacks of a window know functions only; a function that was running when the window began has
    but one line in it. In the function that steps it is the line that took longest without
    training, where the calls take far less than the loop. Without such samples it is the line of
    most of the function's own code.
    """
    min_share = MIN_CALL_SHARE * loop_ns / (evidence.step_ns or 1)
    call = _find_calling_line(evidence, location)
    if call is not None and call.share >= min_share:
        return replace(location, file=call.file, line=call.line)
    for step_line in step_lines.find_costly_lines(evidence):
        place = step_line.location
        if samples.is_function_of(location.file, location.function or "", place):
            return replace(location, file=place.file, line=place.line)
    if call is not None:
        return replace(location, file=call.file, line=call.line)
    top = samples.find_top_code(evidence)
    top_location = samples.code_location(top)
    is_same_function = top is not None and samples.is_function_of(
        location.file, location.function or "", top
    )
    return top_location if top_location is not None and is_same_function else location


def _find_calling_line(evidence: Evidence, location: Location) -> CallLine | None:
    min_calls = MIN_CALLS * windows.count_steps(evidence)
    repeated = {
        (line.file, line.function)
        for line in evidence.study.tables.lines
        if line.calls >= min_calls
    }
    return samples.find_call(
        evidence,
        location,
        lambda call: any(
            call.callee.rpartition(".")[2] == function and call.callee_file.endswith(file)
            for file, function in repeated
        ),
    )
