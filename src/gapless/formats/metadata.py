"""What stands beside the events of a trace: devices, ranks, versions, the writer's own log."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from gapless.model.trace import Device, Distributed

_LENIENT: Final = json.JSONDecoder(strict=False)
_KEY: Final = re.compile(r'"([A-Za-z_][A-Za-z_0-9 ]*)"\s*:\s*')
_VERSION: Final = "_version"
_LOGS: Final = ("ERROR", "WARNING", "INFO")
_COUNTED: Final = re.compile(  # Kineto's line of counts at the end of a capture: those that tell
    r"(Out-of-range|Invalid ext correlations|CPU GPU out-of-order|Unexpected CUDA events"
    r"|CUPTI stopped early\?) = ([1-9]\d*)"
)
_KINETO: Final = ("schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo")
_MOST_NOTES: Final = 8


@dataclass(frozen=True)
class Metadata:
    """The top level of a trace file without its events."""

    found: dict[str, Any]

    @property
    def is_kineto(self) -> bool:
        """Say whether torch's profiler wrote the file, by keys that only it writes."""
        return any(key in self.found for key in _KINETO)

    @property
    def base_ns(self) -> int | None:
        """Give the Unix time that the file's times count from; ``None`` if it does not say."""
        return _whole(self.found.get("baseTimeNanoseconds"))


def parse(head: bytes, rest: bytes) -> Metadata:
    """Read what stands before the events (up to their bracket) and after them (from it on)."""
    before = head.decode(errors="replace").removeprefix("\ufeff").strip()
    found = _object(before + "]}") if before.startswith("{") else {}
    after = rest.decode(errors="replace").strip().lstrip(",").strip()
    if after and after != "}":
        found |= _object("{" + after)
    found.pop("traceEvents", None)
    return Metadata(found)


def _object(text: str) -> dict[str, Any]:
    """Read a JSON object; where it is broken, those of its keys that can be read."""
    try:
        found, _ = _LENIENT.raw_decode(text)
    except (ValueError, RecursionError):
        return _readable(text)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _readable(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    place = 0
    while (key := _KEY.search(text, place)) is not None:
        place = key.end()
        try:
            value, place = _LENIENT.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        found[key[1]] = value
    return found


def devices(metadata: Metadata) -> tuple[Device, ...]:
    """Give the devices that the file describes."""
    listed = _maybe_text(metadata.found.get("deviceProperties"))
    if not isinstance(listed, list):
        return ()
    entries = [cast("dict[str, Any]", e) for e in cast("list[Any]", listed) if isinstance(e, dict)]
    return tuple(_device(entry, place) for place, entry in enumerate(entries))


def _device(entry: dict[str, Any], place: int) -> Device:
    index = _whole(entry.get("id"))
    major, minor = _whole(entry.get("computeMajor")), _whole(entry.get("computeMinor"))
    name = entry.get("name")
    return Device(
        index=place if index is None else index,
        name=name if isinstance(name, str) and name else None,
        compute_capability=None if major is None or minor is None else (major, minor),
        memory_bytes=_whole(entry.get("totalGlobalMem")),
        multiprocessors=_whole(entry.get("numSms") or entry.get("multiProcessorCount")),
    )


def distributed(metadata: Metadata) -> Distributed | None:
    """Give ``distributedInfo``, if the file has it."""
    info = _maybe_text(metadata.found.get("distributedInfo"))
    if not isinstance(info, dict):
        return None
    entry = cast("dict[str, Any]", info)
    backend = entry.get("backend")
    return Distributed(
        rank=_whole(entry.get("rank")),
        world=_whole(entry.get("world_size")),
        backend=backend if isinstance(backend, str) and backend else None,
    )


def versions(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """List the versions that the file states, sorted by name."""
    stated = dict(metadata.found)
    info = _maybe_text(metadata.found.get("distributedInfo"))
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
        logged = _maybe_text(metadata.found.get(level))
        listed = cast("list[Any]", logged) if isinstance(logged, list) else [logged]
        texts = [line for line in listed if isinstance(line, str) and line]
        if level == "INFO":
            texts = [
                f"{what}: {count} records" for t in texts for what, count in _COUNTED.findall(t)
            ]
        lines += texts
    return tuple(f"the writer logged: {' '.join(line.split())}" for line in lines[:_MOST_NOTES])


def _maybe_text(value: object) -> object:
    """Give what a JSON text inside JSON holds, else the value."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _whole(value: object) -> int | None:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return None
    return None
