"""Fetches that are blocked, and what they wait for; for input rules. Times are nanoseconds."""

from typing import Final

from gapless.catalogue.declare.selectors import name_line
from gapless.catalogue.queries.input.late_batches import waits_lie_elsewhere
from gapless.catalogue.queries.input.loaders import Loading, find_waited_loading
from gapless.model.change import LoaderChange
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Loader
from gapless.model.host_code import FetchWait
from gapless.replay.loader.costs import BLOCKED

MIN_READ_SHARE: Final = 0.5  # of the wait: above it, reads are what is waited for
_MIN_WAIT_SHARE: Final = 0.6  # of the time that a fetch is blocked, sampled in one kind of wait
MIN_LOOKS: Final = 20  # samples of fetches; of fewer, even all may be chance
WAIT_PHRASES: Final = {
    "sleep": "sleeping",
    "socket": "waiting for a socket",
    "pipe": "waiting for another process through a pipe",
    "process": "waiting for another process",
    "lock": "waiting for a lock",
}


def find_blocked_loading(evidence: Evidence, loader: Loader) -> Loading | None:
    """Return how a loader feeds the training if its fetches are usually blocked."""
    loading = find_waited_loading(evidence, loader)
    if loading is None or waits_lie_elsewhere(loading) or not loading.is_blocked:
        return None
    return loading


def measure_read_share(loading: Loading) -> float:
    """Return the share of the blocked time of a fetch in calls that read."""
    blocked_by_stage = {
        stage.name: max(0.0, stage.wall_ns - stage.cpu_ns) for stage in loading.stages()
    }
    return blocked_by_stage.get("read", 0.0) / (sum(blocked_by_stage.values()) or 1.0)


def find_main_wait(evidence: Evidence, loading: Loading) -> FetchWait | None:
    """Return what a blocked fetch waits for, if that is no read and most of it was sampled there.

    Raises ``NotObservedError``.
    """
    top = next(iter(evidence.fetch_waits), None)
    if top is None or top.looks < MIN_LOOKS or not loading.blocked_ns:
        return None
    blocked_share = loading.blocked_ns / loading.fetch_ns
    if top.share < _MIN_WAIT_SHARE * blocked_share or measure_read_share(loading) >= MIN_READ_SHARE:
        return None
    return top


def wait_location(wait: FetchWait) -> Location:
    """Return the user's line that waits."""
    return Location(wait.file, wait.line, wait.function)


def describe_wait(wait: FetchWait) -> str:
    """Return the beginning of a sentence on a wait: what for, in which function and line."""
    subject = WAIT_PHRASES[wait.kind].capitalize()
    return f"{subject} in `{wait.function}` ({name_line(wait_location(wait))})"


def leave_out_waits(loading: Loading) -> LoaderChange:
    """Return the change that a fetch is never blocked in the data set's code."""
    off_processor_ns = loading.fetch_ns - (loading.cpu_ns or 0.0)
    return LoaderChange(
        loading.loader.id, stages={BLOCKED: 1 - loading.blocked_ns / off_processor_ns}
    )
