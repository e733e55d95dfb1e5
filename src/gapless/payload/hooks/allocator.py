"""The allocator of device memory: its own counters, once a second at first, at a step edge.

The counters are kept by torch; reading them takes its lock and asks nothing of the device.
"""

from __future__ import annotations

import sys
from typing import Any

from ... import wire
from .. import patching, recorder, thinning

_EVERY = 1_000_000_000  # ns
_DENSE = 1_200  # seconds at that rate; then as many readings again each time as long
_BYTES = (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved"))
_MORE = (("active_bytes", "active"), ("inactive_split_bytes", "inactive_split"))
_COUNTS = (
    ("num_alloc_retries", "retries"),
    ("num_ooms", "ooms"),
    ("num_device_alloc", "device_allocs"),
    ("num_device_free", "device_frees"),
    ("num_sync_all_streams", "sync_all_streams"),
)
_looked = [-_EVERY, 0]  # when last, when first


def install() -> None:
    """Look at step edges."""
    recorder.on_edge(edge, seldom=True)


@patching.guarded("allocator")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Write the counters if it is time and CUDA is in use."""
    last, first = _looked
    if end - last < max(_EVERY, (last - first) // _DENSE):
        return
    _looked[:] = [end, first or end]
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return
    if not thinning.affords():
        return
    c = sys.modules["torch"]._C
    device = c._cuda_getDevice()
    recorder.write(wire.COUNTERS, counters(end, device, c._cuda_memoryStats(device)))


def counters(now: int, device: Any, statistics: Any) -> Any:
    """Give the frame of one reading; what this torch does not count is left out."""
    frame = {"ns": now, "device": device}
    for name, ours in _BYTES + _MORE:
        frame.update(_current(statistics, name, ours))
    frame.update(_current(statistics, "segment", "segments"))
    frame.update({ours: statistics[name] for name, ours in _COUNTS if name in statistics})
    return frame


def _current(statistics: Any, name: str, ours: Any) -> Any:
    whole = statistics.get(name, {}).get("all")
    if whole is None:
        return {}
    return {ours: whole["current"], ours + "_peak": whole["peak"]}
