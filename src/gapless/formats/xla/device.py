"""Planes of devices: their streams, and what ran there."""

import re
from typing import Final

from gapless.formats.parts import TraceParts
from gapless.formats.rows import DeviceFields
from gapless.formats.xla.meaning import device_event, stream_of
from gapless.formats.xla.planes import NAMELESS, Stats, XPlane, parse_line, read_stats
from gapless.formats.xla.profile import (
    SEEN_STATS,
    Profile,
    integer_stat,
    place_event,
)
from gapless.model.trace import Device, Geometry

_GRID: Final = re.compile(r"grid:(\d{1,9}),(\d{1,9}),(\d{1,9})")
_BLOCK: Final = re.compile(r"block:(\d{1,9}),(\d{1,9}),(\d{1,9})")
_REGISTERS: Final = re.compile(r"regs:(\d{1,9})")
_SHARED: Final = re.compile(r"(?:static_shared|group_mem):(\d{1,12})")
_SIZE: Final = re.compile(r"size:(\d{1,18})")
_NVIDIA: Final = "nvidia"
_GPU_NAMES: Final = ("device_type_string", "device_name", "gpu_model")


def add_device(profile: Profile, plane: XPlane, number: int) -> None:
    """Add what a device did; lines that were derived from others are left out."""
    for data in plane.lines:
        line = parse_line(data, profile.space)
        stream = stream_of(plane.name, line.name, line.number)
        if stream < 0:
            continue
        track = profile.parts.track_id(plane.name, line.name)
        for event in line.events:
            kind = plane.kinds.get(event.metadata, NAMELESS)
            stats = read_stats(plane, event.stats, SEEN_STATS.__contains__)
            details = str(stats.get("memcpy_details", stats.get("memset_details", "")))
            meant = device_event(kind.name, details)
            if meant is None:
                profile.parts.written += 1
                continue
            fields = DeviceFields(
                number, stream, _first_number(_SIZE, details), _geometry(profile.parts, stats)
            )
            correlation = integer_stat(stats, "correlation_id")
            profile.add(meant[0], place_event(line, event, track), meant[1], correlation, fields)


def _geometry(parts: TraceParts, stats: Stats) -> int:
    details = stats.get("kernel_details")
    if not isinstance(details, str) or not details:
        return -1
    grid, block = _GRID.search(details), _BLOCK.search(details)
    registers, shared = _first_number(_REGISTERS, details), _first_number(_SHARED, details)
    return parts.geometry_id(
        Geometry(
            grid=None if grid is None else tuple(map(int, grid.groups())),
            block=None if block is None else tuple(map(int, block.groups())),
            registers=None if registers < 0 else registers,
            shared_memory=None if shared < 0 else shared,
        )
    )


def _first_number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match is not None else -1


def describe_device(plane: XPlane, number: int) -> Device:
    """Return what a plane says of its device."""
    stats = read_stats(plane, plane.stats, lambda _: True)
    vendor, memory = stats.get("device_vendor"), stats.get("memory_size")
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    names = [stats[key] for key in _GPU_NAMES if isinstance(stats.get(key), str) and stats[key]]
    is_vendor = isinstance(vendor, str) and bool(vendor)
    capability = None
    if is_vendor and str(vendor).lower().startswith(_NVIDIA):  # AMD's numbers mean something else
        capability = (major, minor) if isinstance(major, int) and isinstance(minor, int) else None
    return Device(
        index=number,
        name=str(names[0]) if names else (f"{vendor} device" if is_vendor else None),
        compute_capability=capability,
        memory_bytes=memory if isinstance(memory, int) and memory > 0 else None,
    )
