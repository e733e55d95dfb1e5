"""What stands beside the events of a trace: devices, ranks, versions, the writer's own log."""

import json
import re
from typing import Any, Final, cast

from msgspec import Struct

from gapless.model.trace import Device, Distributed

_LENIENT: Final = json.JSONDecoder(strict=False)
_KEY: Final = re.compile(r'"([A-Za-z_][A-Za-z_0-9 ]*)"\s*:\s*')
_VERSION: Final = "_version"
_LOGS: Final = ("ERROR", "WARNING", "INFO")
_LOG_COUNTS: Final = re.compile(  # of Kineto's line at the end of a capture
    r"(Out-of-range|Invalid ext correlations|CPU GPU out-of-order|Unexpected CUDA events"
    r"|CUPTI stopped early\?) = ([1-9]\d*)"
)
_KINETO: Final = ("schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo")
_MAX_NOTES: Final = 8


class Metadata(Struct, frozen=True):
    """The top level of a trace file without its events."""

    members: dict[str, Any]

    @property
    def is_kineto(self) -> bool:
        """Return whether torch's profiler wrote the file, by keys that only it writes."""
        return any(key in self.members for key in _KINETO)

    @property
    def base_ns(self) -> int | None:
        """Return the Unix time that the file's times count from; ``None`` if it does not say."""
        return _parse_integer(self.members.get("baseTimeNanoseconds"))


def parse(head: bytes, footer: bytes) -> Metadata:
    """Read what stands before the events (up to their bracket) and after them (from it on)."""
    head_text = head.decode(errors="replace").removeprefix("\ufeff").strip()
    members = _object(head_text + "]}") if head_text.startswith("{") else {}
    footer_text = footer.decode(errors="replace").strip().lstrip(",").strip()
    if footer_text and footer_text != "}":
        members |= _object("{" + footer_text)
    members.pop("traceEvents", None)
    return Metadata(members)


def _object(text: str) -> dict[str, Any]:
    """Read a JSON object; where it is broken, those of its keys that can be read."""
    try:
        parsed, _ = _LENIENT.raw_decode(text)
    except (ValueError, RecursionError):
        return _readable_members(text)
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _readable_members(text: str) -> dict[str, Any]:
    members: dict[str, Any] = {}
    position = 0
    while (key := _KEY.search(text, position)) is not None:
        position = key.end()
        try:
            value, position = _LENIENT.raw_decode(text, position)
        except (ValueError, RecursionError):
            continue
        members[key[1]] = value
    return members


def devices(metadata: Metadata) -> tuple[Device, ...]:
    """Return the devices that the file describes."""
    properties = _maybe_text(metadata.members.get("deviceProperties"))
    if not isinstance(properties, list):
        return ()
    entries = [
        cast("dict[str, Any]", entry)
        for entry in cast("list[Any]", properties)
        if isinstance(entry, dict)
    ]
    return tuple(_device(entry, index) for index, entry in enumerate(entries))


def _device(entry: dict[str, Any], position: int) -> Device:
    index = _parse_integer(entry.get("id"))
    major, minor = (
        _parse_integer(entry.get("computeMajor")),
        _parse_integer(entry.get("computeMinor")),
    )
    name = entry.get("name")
    return Device(
        index=position if index is None else index,
        name=name if isinstance(name, str) and name else None,
        compute_capability=None if major is None or minor is None else (major, minor),
        memory_bytes=_parse_integer(entry.get("totalGlobalMem")),
    )


def distributed_info(metadata: Metadata) -> Distributed | None:
    """Return ``distributedInfo``, if the file has it."""
    info = _maybe_text(metadata.members.get("distributedInfo"))
    if not isinstance(info, dict):
        return None
    entry = cast("dict[str, Any]", info)
    backend = entry.get("backend")
    return Distributed(
        rank=_parse_integer(entry.get("rank")),
        world=_parse_integer(entry.get("world_size")),
        backend=backend if isinstance(backend, str) and backend else None,
    )


def versions(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """List the versions that the file states, sorted by name."""
    stated = dict(metadata.members)
    info = _maybe_text(metadata.members.get("distributedInfo"))
    if isinstance(info, dict):
        stated |= cast("dict[str, Any]", info)
    return tuple(
        sorted(
            (key.removesuffix(_VERSION), str(value))
            for key, value in stated.items()
            if key.endswith(_VERSION) and isinstance(value, (str, int, float)) and value != ""
        )
    )


def notes(metadata: Metadata) -> tuple[str, ...]:
    """List what the writer itself logged: errors, warnings, and how many records it left out."""
    lines: list[str] = []
    for level in _LOGS:
        logged = _maybe_text(metadata.members.get(level))
        entries = cast("list[Any]", logged) if isinstance(logged, list) else [logged]
        texts = [line for line in entries if isinstance(line, str) and line]
        if level == "INFO":
            texts = [
                f"{reason}: {count} records"
                for text in texts
                for reason, count in _LOG_COUNTS.findall(text)
            ]
        lines += texts
    return tuple(f"the writer logged: {' '.join(line.split())}" for line in lines[:_MAX_NOTES])


def _maybe_text(value: object) -> object:
    """Return what a JSON text inside JSON holds, else the value."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _parse_integer(value: object) -> int | None:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return None
    return None
