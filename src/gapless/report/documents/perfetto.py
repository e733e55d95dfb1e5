"""The picture of a window as a trace for Perfetto's viewer: our leaves beside what happened.

Chrome's trace format (an object with ``traceEvents``): complete events in microseconds from the
start of the picture, since a viewer's floating-point numbers hold no nanoseconds of an epoch.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gapless.model.leaf import GROUPS, LEAVES, PRINTED
from gapless.model.picture import Picture, Strip, StripKind
from gapless.report.text.names import short_name
from gapless.report.text.text import clean, kernel_name

_PROCESSES: Final = {  # in the order in which a viewer shows them
    StripKind.ACCOUNT: (1, "gapless: where the time goes"),
    StripKind.THREAD: (2, "threads"),
    StripKind.STREAM: (3, "streams"),
    StripKind.WORKER: (4, "loader"),
}
_NS_PER_US: Final = 1000


def perfetto_json(picture: Picture) -> bytes:
    """Write a picture as JSON; bars of the account are named by cause, with the event to blame."""
    events = [*_process_names(picture), *_step_marks(picture)]
    for track, strip in enumerate(picture.strips, 1):
        events += _strip_events(picture, strip, track)
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def _process_names(picture: Picture) -> Iterator[dict[str, Any]]:
    for kind in dict.fromkeys(strip.kind for strip in picture.strips):
        number, name = _PROCESSES[kind]
        yield {"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}}
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": number,
            "args": {"sort_index": number},
        }


def _step_marks(picture: Picture) -> Iterator[dict[str, Any]]:
    """Yield an instant at the start of each step, across all tracks."""
    for step in picture.steps:
        yield {
            "ph": "i",
            "s": "g",
            "name": f"step {step.number}",
            "pid": 1,
            "tid": 1,
            "ts": step.start / _NS_PER_US,
        }


def _strip_events(picture: Picture, strip: Strip, track: int) -> Iterator[dict[str, Any]]:
    process, _ = _PROCESSES[strip.kind]
    place = {"pid": process, "tid": track}
    yield {"ph": "M", "name": "thread_name", **place, "args": {"name": clean(strip.title)}}
    yield {"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": track}}
    leaves: list[int] = strip.leaf.tolist()
    for index, leaf in enumerate(leaves):
        start, end = int(strip.start[index]), int(strip.end[index])
        yield {
            "ph": "X",
            **place,
            "ts": start / _NS_PER_US,
            "dur": (end - start) / _NS_PER_US,
            **_label(strip, index, leaf, _event_name(picture, int(strip.name[index]))),
        }


def _event_name(picture: Picture, number: int) -> str | None:
    return kernel_name(clean(picture.names[number])) if number >= 0 else None


def _label(strip: Strip, index: int, code: int, event: str | None) -> dict[str, Any]:
    """Return name, category and arguments of a bar: the account's are named by their cause."""
    leaf = LEAVES[code] if code >= 0 else None
    group_number = int(strip.group[index])
    group = GROUPS[group_number] if group_number >= 0 else None
    details = {"leaf": leaf, "event": event}
    arguments = {name: value for name, value in details.items() if value is not None}
    if leaf is not None and group is not None and strip.kind is StripKind.ACCOUNT:
        name = f"{PRINTED[group]}: {short_name(leaf)}"
        return {"name": name, "cat": group, "args": arguments}
    return {"name": event or "not named", "cat": group or strip.kind.value, "args": arguments}
