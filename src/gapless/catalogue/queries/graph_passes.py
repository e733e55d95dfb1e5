"""What the backward pass takes for operators that a line calls: they go with the line."""

from pathlib import PurePath
from typing import Final

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.samples import is_function_of
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.study import GRAPH_MADE, GRAPH_PASSED, Site

_MIN_GRAPH_SHARE: Final = 0.3  # of a line's time, in operators that make a graph
NOTHING: Final = Estimate(0.0, 0.0, 0.0)
_MODES: Final = ("__torch_function__", "__torch_dispatch__")  # all operators pass through them
_INNER: Final = "<"  # what the names of comprehensions begin with


def backward_share(evidence: Evidence, line: StepLine) -> Estimate:
    """Return the share of a step in which a backward pass goes through what a line computed.

    Stacks of windows know the function and its comprehensions, no other lines: as much of the
    function's operators counts as fits in the line's time, and none where these take little of it.
    Nothing with a device, whose backward pass is launched while it works.

    Where windows are slower than plain steps, it is the same share of both, or its events were
    slowed as much as all others: the middle lies between the two.
    """
    sites, step_ns = evidence.study.sites, evidence.step_ns
    if evidence.on_device or not step_ns or not any(site.name == GRAPH_PASSED for site in sites):
        return NOTHING
    inner_sites = [site for site in sites if _is_within(evidence, line, site)]
    own_sites = inner_sites or [
        site for site in sites if is_function_of(site.file, site.function, line.location)
    ]
    passed_sites = [site for site in own_sites if site.name == GRAPH_PASSED]
    made_ns = sum(site.ns for site in own_sites if site.name == GRAPH_MADE)
    window_ns, n_steps = windows.loop_window_ns(evidence), windows.count_steps(evidence)
    line_ns = line.share.mid * window_ns
    if not made_ns or made_ns < _MIN_GRAPH_SHARE * line_ns:
        return NOTHING
    passed_ns = sum(site.ns for site in passed_sites)
    slowed_ns = max(0.0, window_ns / n_steps - step_ns)
    n_events = windows.sum_calls(evidence, "*").count * n_steps
    traced_ns = slowed_ns * sum(site.calls for site in passed_sites) / max(1.0, n_events)
    ends = passed_ns / window_ns, max(0.0, passed_ns / n_steps - traced_ns) / step_ns
    part = min(1.0, line_ns / made_ns)
    return Estimate(part * min(ends), part * sum(ends) / 2, part * max(ends))


def _is_within(evidence: Evidence, line: StepLine, site: Site) -> bool:
    """Return whether a site is of a comprehension at a line, or of a function called there."""
    is_same_file = PurePath(site.file).name == PurePath(line.location.file).name
    if site.function.startswith(_INNER):
        return is_same_file and line.first_line <= site.line <= line.last_line
    return not site.function.startswith(_MODES) and any(
        call.callee.rpartition(".")[2] == site.function.rpartition(".")[2]
        and PurePath(call.callee_file).name == PurePath(site.file).name
        for call in evidence.call_lines
        if line.first_line <= call.line <= line.last_line
        and PurePath(call.file).name == PurePath(line.location.file).name
    )
