"""The allocator of device memory: its own counters, once a second at first, at a step edge.

The counters are kept by torch; reading them takes its lock and asks nothing of the device.
"""

from __future__ import annotations

import sys
from typing import Any

from ... import wire
from .. import declare, patching, recorder
from ..log import thinning
from ..process_state import keep_fields

_PERIOD_NS = 1_000_000_000  # ns
_DENSE = 1_200  # seconds at that rate; then as many readings again each time as long
_BYTES = (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved"))
_EXTRA_BYTES = (("active_bytes", "active"), ("inactive_split_bytes", "inactive_split"))
_COUNTS = (
    ("num_alloc_retries", "retries"),
    ("num_ooms", "ooms"),
    ("num_device_alloc", "device_allocs"),
    ("num_device_free", "device_frees"),
    ("num_sync_all_streams", "sync_all_streams"),
)
_looks = keep_fields(last_ns=-_PERIOD_NS, first_ns=0)


@declare.at_seldom_edge
@patching.guard("allocator")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Write the counters if it is time and CUDA is in use."""
    last_ns, first_ns = _looks.last_ns, _looks.first_ns
    if end - last_ns < max(_PERIOD_NS, (last_ns - first_ns) // _DENSE):
        return
    _looks.last_ns, _looks.first_ns = end, first_ns or end
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    if not thinning.affords():
        return
    c = sys.modules["torch"]._C
    device = c._cuda_getDevice()
    recorder.write(wire.COUNTERS, counters(end, device, c._cuda_memoryStats(device)))


def counters(now: int, device: Any, statistics: Any) -> Any:
    """Return the frame of one reading; what this torch does not count is left out."""
    frame = {"ns": now, "device": device}
    for name, field in _BYTES + _EXTRA_BYTES:
        frame.update(_current(statistics, name, field))
    frame.update(_current(statistics, "segment", "segments"))
    frame.update({field: statistics[name] for name, field in _COUNTS if name in statistics})
    return frame


def _current(statistics: Any, name: str, field: Any) -> Any:
    totals = statistics.get(name, {}).get("all")
    if totals is None:
        return {}
    return {field: totals["current"], field + "_peak": totals["peak"]}
