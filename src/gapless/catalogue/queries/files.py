"""File operations that the training thread makes in a step, as stacks show them."""

from collections import Counter
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import samples, windows
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.study import FILES, Site

LEAVES: Final = ("idle.host.python", "idle.host.unframed")
MAX_FILE_SHARE: Final = 0.95  # of these leaves
_CALL_NS: Final = 1_000  # that the Python profiler takes to record a call
# Packages that compute in pure Python; under a Python profiler their share is too large.
_WRITER_PACKAGES: Final = tuple(
    f"{name}." for name in ("csv", "json", "pprint", "statistics", "yaml")
)
_UNPROFILED_SHARE: Final = 0.75
_STREAM_KINDS: Final = ("socket", "pipe", "process")  # what the thread waited for, as sampled


class FileCalls(Struct, frozen=True):
    """File operations: ns of a step, and counts by name, those that take most time first."""

    ns: float
    calls: dict[str, float]


def measure_file_calls(evidence: Evidence) -> FileCalls | None:
    """Return the file operations of a step; ``None`` if there are none, or nothing waits for them.

    In a step without profiler they take the same share as in the window with stacks, and at most
    the time that waits for Python.
    """
    ns_by_name, calls_by_name = Counter[str](), Counter[str]()
    for site in evidence.study.sites:
        if site.name.startswith(FILES) and not _is_stream(evidence, site):
            ns_by_name[site.name[len(FILES) :]] += max(0, site.ns - site.calls * _CALL_NS)
            calls_by_name[site.name[len(FILES) :]] += site.calls
    step_ns, python_ns = evidence.step_ns, evidence.per_step(*LEAVES)
    if not step_ns or not ns_by_name or not python_ns:
        return None
    n_steps = windows.count_steps(evidence)
    files_ns = min(
        MAX_FILE_SHARE * python_ns, step_ns * ns_by_name.total() / windows.loop_window_ns(evidence)
    )
    return FileCalls(
        files_ns, {name: calls_by_name[name] / n_steps for name, _ in ns_by_name.most_common()}
    )


def _is_stream(evidence: Evidence, site: Site) -> bool:
    """Return whether a file is a socket or a process, which Python wraps as files."""
    codes = evidence.host_code
    return any(code.kind in _STREAM_KINDS and samples.is_site_of(site, code) for code in codes)


def measure_named_ns(evidence: Evidence) -> float:
    """Return the Python time of a step with a known cause: file operations and text writers."""
    file_calls, step_ns = measure_file_calls(evidence), evidence.step_ns or 0
    writers_ns = sum(
        site.ns for site in evidence.study.sites if site.name.startswith(_WRITER_PACKAGES)
    )
    text_ns = _UNPROFILED_SHARE * step_ns * writers_ns / windows.loop_window_ns(evidence)
    return min(
        MAX_FILE_SHARE * evidence.per_step(*LEAVES),
        text_ns + (0.0 if file_calls is None else file_calls.ns),
    )


def find_caller(evidence: Evidence, name: str) -> Location | None:
    """Return the user's line at which calls of this name take most time."""
    sites = [site for site in evidence.study.sites if site.name == f"{FILES}{name}"]
    top_site = max(sites, key=lambda site: site.ns, default=None)
    if top_site is None:
        return None
    location = Location(top_site.file, top_site.line, top_site.function)
    return samples.find_called_line(evidence, location, name)
