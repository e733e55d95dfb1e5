"""How activities hang together with the host side: what a study's tables are joined on."""

from dataclasses import dataclass

from gapless.accounting.activities import activities
from gapless.accounting.threads import threads
from gapless.model.trace import Int64, Trace


@dataclass(frozen=True)
class Links:
    """For each activity, sorted by (device, start), the events it is joined with, or −1."""

    activity: Int64  # its own event
    launch: Int64  # the call that launched it
    operator: Int64  # the innermost operator open at the call
    thread: Int64  # the thread of the call (track)


def link(trace: Trace) -> Links:
    """Join the activities of a trace with their launches and operators."""
    acts = activities(trace, threads(trace))
    return Links(acts.event, acts.call, acts.operator, acts.thread)
