"""Calls of files that the training thread makes in a step, as stacks show them."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gapless.catalogue import sampled, windowed
from gapless.model.edit import Location
from gapless.model.seen import Evidence
from gapless.model.study import FILES, Site

LEAVES: Final = ("idle.host.python", "idle.host.unframed")
MAX_FILE_SHARE: Final = 0.95  # of these leaves
_CALL_NS: Final = 1_000  # that the profiler of Python takes to note a call
# Packages that compute in Python alone; under a profiler of Python their share is too large.
_WRITER_PACKAGES: Final = tuple(f"{name}." for name in ("csv", "json", "pprint", "statistics", "yaml"))
_UNPROFILED_SHARE: Final = 0.75
_STREAM_KINDS: Final = ("socket", "pipe", "process")  # what was waited for, as sampled


@dataclass(frozen=True)
class FileCalls:
    """Calls of files: ns of a step, and how often by name, those that take most time first."""

    ns: float
    calls: dict[str, float]


def measure_file_calls(evidence: Evidence) -> FileCalls | None:
    """Return the calls of files in a step; ``None`` where there are none, or nothing waits for them.

    Of a plain step they take the share that they take in the window with stacks, and at most what
    waits for Python.
    """
    ns_by_name, calls_by_name = Counter[str](), Counter[str]()
    for site in evidence.study.sites:
        if site.name.startswith(FILES) and not _is_stream(evidence, site):
            ns_by_name[site.name[len(FILES) :]] += max(0, site.ns - site.calls * _CALL_NS)
            calls_by_name[site.name[len(FILES) :]] += site.calls
    step_ns, python_ns = evidence.step_ns, evidence.per_step(*LEAVES)
    if not step_ns or not ns_by_name or not python_ns:
        return None
    n_steps = windowed.count_steps(evidence)
    files_ns = min(MAX_FILE_SHARE * python_ns, step_ns * ns_by_name.total() / windowed.loop_window_ns(evidence))
    return FileCalls(files_ns, {name: calls_by_name[name] / n_steps for name, _ in ns_by_name.most_common()})


def _is_stream(evidence: Evidence, site: Site) -> bool:
    """Return whether calls of a file are of a socket or of a process: Python wraps these as files."""
    recorded = evidence.study.recorded
    codes = () if recorded is None else recorded.host_code
    return any(code.kind in _STREAM_KINDS and sampled.is_site_of(site, code) for code in codes)


def measure_named_ns(evidence: Evidence) -> float:
    """Return the part of a step's Python that has a name: calls of files, and of writers of text."""
    file_calls, step_ns = measure_file_calls(evidence), evidence.step_ns or 0
    writers_ns = sum(site.ns for site in evidence.study.sites if site.name.startswith(_WRITER_PACKAGES))
    text_ns = _UNPROFILED_SHARE * step_ns * writers_ns / windowed.loop_window_ns(evidence)
    return min(MAX_FILE_SHARE * evidence.per_step(*LEAVES), text_ns + (0.0 if file_calls is None else file_calls.ns))


def find_caller(evidence: Evidence, name: str) -> Location | None:
    """Return the user's function that calls of a name take most time in."""
    sites = [site for site in evidence.study.sites if site.name == f"{FILES}{name}"]
    top_site = max(sites, key=lambda site: site.ns, default=None)
    return None if top_site is None else Location(top_site.file, top_site.line, top_site.function)
