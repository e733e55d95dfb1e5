"""Lines of the stepping function at which a device computes what no backward pass goes through."""

from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import step_lines, windows
from gapless.catalogue.queries.samples import is_function_of
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.study import ON_DEVICE, Site

# Copies and numbers that are read have causes of their own.
_COPIES: Final = ("to", "cpu", "cuda", "item", "copy_", "_to_copy", "contiguous", "clone", "detach")
_MIN_LINE_SHARE: Final = 0.5  # of the samples outside training code of the function, at one line
_MIN_CALLS_SHARE: Final = 0.9  # of an operator's calls: others belong to the model


class DeviceLine(Struct, frozen=True):
    """A line, and the operator that it calls."""

    location: Location
    operator: str
    calls: float  # a step
    share: float  # of a step, that the device works for it


def find_device_line(evidence: Evidence) -> DeviceLine | None:
    """Return the line with most of such work; ``None``: there is none, or no line is known.

    Lines are sampled where operators are launched, and where the thread waits as the queue of its
    device is full: most of the function's time outside training has to be at that line.
    """
    step_ns = evidence.step_ns
    site = max(_own_sites(evidence), key=lambda site: site.ns, default=None)
    line = None if site is None else _find_line(evidence, site)
    if site is None or line is None or not step_ns:
        return None
    n_steps = windows.count_steps(evidence)
    operator = site.name.removeprefix(ON_DEVICE)
    location = line.location
    return DeviceLine(location, operator, site.calls / n_steps, site.ns / n_steps / step_ns)


def _own_sites(evidence: Evidence) -> list[Site]:
    """Return the stepping functions' operators that are called hardly anywhere else."""
    functions = step_lines.find_stepping_functions(evidence.call_lines)
    sites: list[Site] = []
    for site in evidence.study.sites:
        name = site.name.removeprefix(ON_DEVICE)
        is_own = any(
            is_function_of(site.file, site.function, Location(file, 0, function))
            for file, function in functions
        )
        is_copy = name.removeprefix("aten::") in _COPIES
        if name != site.name and is_own and not is_copy and not _is_elsewhere(evidence, site, name):
            sites.append(site)
    return sites


def _is_elsewhere(evidence: Evidence, site: Site, name: str) -> bool:
    """Return whether other functions call an operator, too: it would be omitted there as well."""
    calls = [call for call in evidence.study.sites if call.name == name]
    own_calls = sum(
        call.calls for call in calls if (call.file, call.function) == (site.file, site.function)
    )
    return own_calls < _MIN_CALLS_SHARE * sum(call.calls for call in calls)


def _find_line(evidence: Evidence, site: Site) -> StepLine | None:
    lines = [
        line
        for line in step_lines.find_step_lines(evidence)
        if is_function_of(site.file, site.function, line.location)
    ]
    top = max(lines, key=lambda line: line.share.mid, default=None)
    if top is None or top.share.mid < _MIN_LINE_SHARE * sum(line.share.mid for line in lines):
        return None
    return top
