"""How much of a step a device waits for what is done at a line."""

from pathlib import PurePath
from typing import Final

from gapless.catalogue.queries import step_lines
from gapless.catalogue.queries.samples import HOST_LEAVES, is_function_of
from gapless.catalogue.queries.step_lines import StepLine
from gapless.model.evidence import Evidence

DEVICE_WORK: Final = (
    *("busy.", "copy.", "comm.", "idle.device.gap", "idle.device.peer", "idle.graph"),
)
_DATA: Final = "idle.data."
# Times its work: a device whose host is ahead is idle between what it does, all the same.
_MIN_STEP: Final = 1.05


def exposed_share(evidence: Evidence, line: StepLine) -> float:
    """Return how much of a step a device waits at most for what is done at a line.

    That is its waits for the host, as far as stacks of a window show them in the line's function,
    or in functions that do not train, which it may call.
    """
    share = evidence.share(*HOST_LEAVES)
    sites = [site for site in evidence.study.sites if site.name.startswith(HOST_LEAVES)]
    if not evidence.on_device or not sites:
        return share
    training_names = {
        (PurePath(file).name, name.rpartition(".")[2])
        for file, name in step_lines.find_training_functions(evidence.call_lines)
    }
    exposed_ns = sum(
        site.ns
        for site in sites
        if is_function_of(site.file, site.function, line.location)
        or (PurePath(site.file).name, site.function) not in training_names
    )
    return share * exposed_ns / sum(site.ns for site in sites)


def freed_leaves(evidence: Evidence) -> tuple[str, ...]:
    """Return the leaves of waits that go where the thread has less to do, and launches earlier.

    What it loads itself it loads earlier, too; workers are waited for all the same.
    """
    loads_itself = not any(
        use.workers and use.workers.processes and use.share for use in evidence.loader_uses
    )
    return (*HOST_LEAVES, _DATA) if loads_itself else HOST_LEAVES


def idle_share(evidence: Evidence) -> float:
    """Return how much of a step a device idles that a thread with less to do may save.

    Windows slow the thread, so they do not tell which of its lines a device waits for in plain
    steps. But where the thread launches ahead of its device, a step is as long as the device works.
    """
    return max(0.0, min(1 - min_step_share(evidence), evidence.share(*freed_leaves(evidence))))


def min_step_share(evidence: Evidence) -> float:
    """Return how long a step is at least while its device does the same work, as a share of it."""
    return min(1.0, _MIN_STEP * evidence.share(*DEVICE_WORK)) if evidence.on_device else 0.0
