"""A profile of XLA → a trace: devices, threads, steps, operations, tf.data's stages."""

import re
from pathlib import Path
from typing import Final

from gapless.formats.parts import FileFacts, build_trace
from gapless.formats.text.whole import read_whole
from gapless.formats.xla.device import add_device, describe_device
from gapless.formats.xla.executor import EXECUTOR, add_executions
from gapless.formats.xla.host import add_host, settle_threads
from gapless.formats.xla.planes import XPlane, parse_space, read_stats
from gapless.formats.xla.profile import Profile
from gapless.model.trace import Device, Trace

DEVICE_PLANE: Final = re.compile(r"/device:(?P<kind>GPU|TPU|ROCM|NPU):(?P<number>\d{1,6})")
HOST_PLANE: Final = re.compile(r"/host:(CPU|python-tracer|CUPTI|ROCTRACER|TPU-runtime)\b.*")
_FACTS_PLANE: Final = "Task Environment"
_MAX_NOTES: Final = 4
_MAX_LETTERS: Final = 200  # of a complaint
_LATEST_NS: Final = 1 << 62


def read_xplane(path: Path) -> Trace:
    """Read a profile. Raises ``NotATraceError`` if it is none, or holds nothing."""
    file = read_whole(path)
    profile = Profile(parse_space(file.data))
    planes = profile.space.planes
    devices = [
        (plane, int(match["number"]))
        for plane in planes
        if (match := DEVICE_PLANE.fullmatch(plane.name)) is not None and plane.lines
    ]
    profile.has_device = bool(devices)
    for plane, number in devices:
        add_device(profile, plane, number)
    for plane in planes:
        if HOST_PLANE.fullmatch(plane.name):
            add_host(profile, plane)
    settle_threads(profile)
    if profile.operations:
        add_executions(profile)
    profile.close()
    if file.damage is not None:
        profile.parts.notes.append(file.damage)
    return build_trace(path, profile.parts, _facts(profile, devices))


def _facts(profile: Profile, devices: list[tuple[XPlane, int]]) -> FileFacts:
    space, parts = profile.space, profile.parts
    origin, versions = 0, dict[str, str]()
    for plane in space.planes:
        stats = read_stats(plane, plane.stats, lambda _: True)
        if plane.name == _FACTS_PLANE:
            began = stats.get("profile_start_time", 0)
            origin = began if isinstance(began, int) and 0 < began < _LATEST_NS else 0
        versions |= {
            key.removesuffix("_version"): str(value)
            for key, value in stats.items()
            if key.endswith("_version") and value != ""
        }
    parts.notes += [
        f"the writer logged: {' '.join(text.split())[:_MAX_LETTERS]}"
        for text in space.complaints[:_MAX_NOTES]
    ]
    if space.n_damaged:
        parts.dropped["message that is damaged"] += space.n_damaged
    described = tuple(describe_device(plane, number) for plane, number in devices)
    if profile.operations:
        described = (Device(0, EXECUTOR),)
    return FileFacts(
        source="xla",
        origin_ns=origin,
        devices=described,
        versions=tuple(versions.items()),
        truncated=space.n_damaged > 0,
    )
