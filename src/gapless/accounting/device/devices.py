"""One device's share of the ledger: owners, idle time, debt (docs: the account, 4, 5, 8)."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.ahead import map_ahead
from gapless.accounting.charges import Charges, make_charges, stack_charges
from gapless.accounting.device.activities import COMPUTE, D2H, H2D, P2P, Activities
from gapless.accounting.device.facets import BackgroundLanes
from gapless.accounting.device.idle import charge_idle, idle_gaps
from gapless.accounting.device.sync_debt import find_debts, pay_debts
from gapless.accounting.device.transfers import device_transfers, split_transfers
from gapless.accounting.device.windows import as_lane
from gapless.accounting.host.host import HostSide
from gapless.accounting.intervals import Lane, slice_lane
from gapless.accounting.ranks.collectives import Arrivals
from gapless.accounting.sweep import sweep_device
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace

_BATCH = 1 << 12  # idle intervals charged at once: some tens of megabytes of working memory


class DevicePieces(Struct, frozen=True):
    """The pieces that tile a device's windows; ``pieces.query`` is the window."""

    pieces: Charges
    activity: Int64  # the owner (position in the device's activities), −1 where idle
    hidden_comm: Int64
    hidden_copy: Int64


def charge_device(
    acts: Activities, classes: Int64, host: HostSide, bounds: Int64, arrivals: Arrivals
) -> Iterator[Charges]:
    """Charge a device's time, at least ``[G_0, G_K)``, batch by batch in order of time.

    ``query`` is the owner's position in ``acts``, −1 where the device is idle; ``classes`` is the
    busy leaf of each activity. Batches keep the working memory of a long trace small.
    """
    owners = sweep_device(acts.start, acts.end, acts.kind)
    idle_lane = idle_gaps(owners, int(bounds[0]), int(bounds[-1]))
    debts = find_debts(host, acts, bounds)
    comm_transfers = device_transfers(acts, host.threads.trace, arrivals)
    heads = range(0, max(len(idle_lane), 1), _BATCH)
    begins = [0, *np.searchsorted(owners.start, idle_lane.start[heads[1:]]).tolist(), len(owners)]
    lanes = (slice_lane(idle_lane, head, head + _BATCH) for head in heads)
    idle_batches = map_ahead(lambda lane: charge_idle(lane, acts, host), lanes)
    for idle_batch, first_row, end_row in zip(idle_batches, begins[:-1], begins[1:], strict=True):
        paid_idle, debts = pay_debts(idle_batch, debts)
        paid_idle = replace(paid_idle, query=np.full(len(paid_idle), -1))
        busy_charges = _charge_owners(
            slice_lane(owners, first_row, end_row), acts, classes, host.threads.trace
        )
        charges = stack_charges([split_transfers(busy_charges, acts, comm_transfers), paid_idle])
        yield charges.take(np.argsort(charges.start, kind="stable"))


def tile_windows(
    acts: Activities, charges: Charges, bounds: Int64, background: BackgroundLanes
) -> DevicePieces:
    """Cut what a device is charged with at its windows."""
    pieces = charges.cut_by(as_lane(bounds))
    activity = charges.query[np.searchsorted(charges.start, pieces.start, side="right") - 1]
    kind = np.where(activity >= 0, acts.kind[activity], P2P)
    comm, copy = background.measure_hidden(kind, pieces.start, pieces.end)
    return DevicePieces(pieces, activity, comm, copy)


def activity_leaves(acts: Activities, classes: Int64, trace: Trace, rows: Int64) -> Int64:
    """Return the leaf of some activities while they own a device: ``classes`` for what computes."""
    kind = acts.kind[rows]
    names = trace.events.name[acts.event[rows]]
    pageable = np.array(["Pageable" in name for name in trace.names], bool)[names]
    h2d = np.where(pageable, LEAF["copy.h2d.pageable"], LEAF["copy.h2d.pinned"])
    return np.select(
        [kind == COMPUTE, kind == H2D, kind == D2H, kind == P2P],
        [classes[rows], h2d, LEAF["copy.d2h"], LEAF["copy.p2p"]],
        LEAF["comm.exposed"],
    )


def _charge_owners(owners: Lane, acts: Activities, classes: Int64, trace: Trace) -> Charges:
    """Charge busy time to its owners (``query``: position in ``acts``), in order of time."""
    leaf = activity_leaves(acts, classes, trace, owners.owner)
    culprit = acts.event[owners.owner]
    return make_charges(owners.start, owners.end, leaf, culprit, query=owners.owner)
