"""One device's share of the ledger: owners, idle time, debt (docs: the account, 4, 5, 8)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import COMPUTE, D2H, H2D, P2P, Activities
from gapless.accounting.ahead import ahead
from gapless.accounting.charges import Charges, charges, stacked
from gapless.accounting.collectives import Arrivals
from gapless.accounting.debt import debts, pay
from gapless.accounting.facets import Beneath
from gapless.accounting.host import Host
from gapless.accounting.idle import gaps, idle
from gapless.accounting.intervals import Lane, part
from gapless.accounting.sweep import sweep_device
from gapless.accounting.transfers import split, transfers
from gapless.accounting.windows import as_lane
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace

_BATCH = 1 << 12  # idle intervals charged at once: some tens of megabytes of working memory


@dataclass(frozen=True)
class DevicePieces:
    """The pieces that tile a device's windows; ``pieces.query`` is the window."""

    pieces: Charges
    activity: Int64  # the owner (position in the device's activities), −1 where idle
    hidden_comm: Int64
    hidden_copy: Int64


def charged(
    acts: Activities, classes: Int64, host: Host, bounds: Int64, arrivals: Arrivals
) -> Iterator[Charges]:
    """Charge a device's time, at least ``[G_0, G_K)``, batch by batch in order of time.

    ``query`` is the owner's position in ``acts``, −1 where the device is idle; ``classes`` is the
    busy leaf of each activity. Batches keep the working memory of a long trace small.
    """
    owners = sweep_device(acts.start, acts.end, acts.kind)
    free = gaps(owners, int(bounds[0]), int(bounds[-1]))
    owed = debts(host, acts, bounds)
    arrived = transfers(acts, host.threads.trace, arrivals)
    heads = range(0, max(len(free), 1), _BATCH)
    begins = [0, *np.searchsorted(owners.start, free.start[heads[1:]]).tolist(), len(owners)]
    parts = (part(free, head, head + _BATCH) for head in heads)
    charged_idle = ahead(lambda lane: idle(lane, acts, host), parts)
    for one, first, last in zip(charged_idle, begins[:-1], begins[1:], strict=True):
        idled, owed = pay(one, owed)
        idled = replace(idled, query=np.full(len(idled), -1))
        owned = _owned(part(owners, first, last), acts, classes, host.threads.trace)
        every = stacked([split(owned, acts, arrived), idled])
        yield every.take(np.argsort(every.start, kind="stable"))


def tiled(acts: Activities, every: Charges, bounds: Int64, below: Beneath) -> DevicePieces:
    """Cut what a device is charged with at its windows."""
    pieces = every.cut_by(as_lane(bounds))
    activity = every.query[np.searchsorted(every.start, pieces.start, side="right") - 1]
    kind = np.where(activity >= 0, acts.kind[activity], P2P)
    comm, copy = below.hidden(kind, pieces.start, pieces.end)
    return DevicePieces(pieces, activity, comm, copy)


def leaves(acts: Activities, classes: Int64, trace: Trace, rows: Int64) -> Int64:
    """Give the leaf of some activities while they own a device: ``classes`` for what computes."""
    kind = acts.kind[rows]
    names = trace.events.name[acts.event[rows]]
    pageable = np.array(["Pageable" in name for name in trace.names], bool)[names]
    h2d = np.where(pageable, LEAF["copy.h2d.pageable"], LEAF["copy.h2d.pinned"])
    return np.select(
        [kind == COMPUTE, kind == H2D, kind == D2H, kind == P2P],
        [classes[rows], h2d, LEAF["copy.d2h"], LEAF["copy.p2p"]],
        LEAF["comm.exposed"],
    )


def _owned(owners: Lane, acts: Activities, classes: Int64, trace: Trace) -> Charges:
    """Charge busy time to its owners (``query``: position in ``acts``), in order of time."""
    leaf = leaves(acts, classes, trace, owners.owner)
    culprit = acts.event[owners.owner]
    return charges(owners.start, owners.end, leaf, culprit, query=owners.owner)
