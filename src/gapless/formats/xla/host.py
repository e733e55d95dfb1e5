"""Planes of a host: threads, what they called, what they computed, what they waited for."""

import re
from typing import Final

import numpy as np

from gapless.formats.rows import Placed
from gapless.formats.xla.meaning import Meaning, call_name, meaning_of, operation_name
from gapless.formats.xla.planes import NAMELESS, EventKind, Stats, XPlane, parse_line, read_stats
from gapless.formats.xla.profile import (
    SEEN_STATS,
    ModuleCall,
    ModuleOperation,
    Profile,
    Spans,
    integer_stat,
    place_event,
)
from gapless.model import category as c
from gapless.model.trace import Int64

_API_LINE: Final = re.compile(r"Host Threads/")
_EXECUTING: Final = re.compile(
    r".*Execute.*|PjitFunction.*|Thunk.*|FunctionRun|DevicePut.*|.*:XLA GPU module"
)
_INPUT_THREADS: Final = re.compile(r"tf_data")
_COMPILER_THREADS: Final = re.compile(r"\w*[cC]ompile")
PYTHON_THREADS: Final = re.compile(r"python|main|MainThread", re.IGNORECASE)
_CALL_NAME: Final = re.compile(r"(?:PjitFunction|PmapFunction)\((?P<name>.*)\)")
_MIN_SHARE: Final = 0.9  # of calls that lie in a thread's frames, for it to be theirs
HOST_CATEGORIES: Final = {
    Meaning.STEP: c.USER_ANNOTATION,
    Meaning.RANGE: c.USER_ANNOTATION,
    Meaning.PYTHON: c.PYTHON_FUNCTION,
    Meaning.OPERATION: c.CPU_OP,
    Meaning.INPUT: c.CPU_OP,
    Meaning.COMPILE: c.CPU_OP,
    Meaning.COPY: c.CPU_OP,
    Meaning.STAGE: c.OTHER_KIND,
}
# With a device these keep it waiting. Without one they are the threads that compute, seen from
# outside: what happens meanwhile is told by those threads themselves.
WITH_DEVICE: Final = {
    Meaning.CALL: c.RUNTIME,
    Meaning.RUNTIME: c.RUNTIME,
    Meaning.WAIT: c.RUNTIME,
}
WITHOUT_DEVICE: Final = {Meaning.CALL: c.USER_ANNOTATION}
_INSIDE: Final = frozenset({Meaning.RUNTIME, Meaning.COMPILE, Meaning.COPY, Meaning.WAIT})
# The account knows such frames by these words: XLA has many names for them, and new ones.
PREFIXES: Final = {
    Meaning.COMPILE: "compile: ",
    Meaning.COPY: "to the device: ",
    Meaning.WAIT: "wait for the device: ",
}


def add_host(profile: Profile, plane: XPlane) -> None:
    """Add what the threads of a host did."""
    for data in plane.lines:
        line = parse_line(data, profile.space)
        name = line.name or str(line.number)
        track = profile.parts.track_id(plane.name, name if "/" in name else f"{name}/{line.number}")
        profile.parts.thread_names[track] = name.partition("/")[0]
        is_compiler = _COMPILER_THREADS.search(profile.parts.thread_names[track]) is not None
        for event in line.events:
            kind = plane.kinds.get(event.metadata, NAMELESS)
            placed = place_event(line, event, track)
            if is_compiler:
                profile.compiling.append((placed.start, placed.end, kind.name))
                continue
            stats = read_stats(plane, event.stats, SEEN_STATS.__contains__) if event.stats else {}
            if _API_LINE.match(name):
                profile.api.setdefault(track, []).append(placed.start)
            _add_event(profile, placed, kind, stats)


def _add_event(profile: Profile, placed: Placed, kind: EventKind, stats: Stats) -> None:
    name = kind.name
    meaning = _find_meaning(profile, name, stats)
    is_executing = _EXECUTING.fullmatch(name) is not None
    if is_executing:
        profile.executing.setdefault(placed.track, []).append((placed.start, placed.end))
    if is_executing or meaning in _INSIDE:
        profile.inside.setdefault(placed.track, []).append((placed.start, placed.end))
    correlation = integer_stat(stats, "correlation_id")
    if meaning is Meaning.API or correlation > 0:
        category = c.RUNTIME if name.startswith(("cuda", "hip")) else c.DRIVER
        profile.add(category, placed, call_name(name), correlation)
        return
    if meaning is Meaning.RANGE:
        profile.ranges.append((placed, name))
        return
    is_of_module = not profile.has_device and meaning in (Meaning.CALL, Meaning.OPERATION)
    if is_of_module and _add_module_event(profile, placed, kind, stats):
        return
    further_categories = WITH_DEVICE if profile.has_device else WITHOUT_DEVICE
    category = HOST_CATEGORIES.get(meaning, further_categories.get(meaning))
    if category is None:
        profile.parts.written += 1
        return
    profile.add(category, placed, _label(profile, meaning, kind, stats, placed.track))


def _add_module_event(profile: Profile, placed: Placed, kind: EventKind, stats: Stats) -> bool:
    """Set aside what belongs to XLA's executor on the host; return whether it does."""
    match = _CALL_NAME.fullmatch(kind.name)
    module = stats.get("hlo_module")
    if match is not None:
        call = ModuleCall(placed, kind.name, f"jit_{match['name']}")
        profile.calls.setdefault(placed.track, []).append(call)
    elif isinstance(module, str) and "hlo_op" in stats:
        run = stats.get("run_id", 0)
        profile.operations.append(
            ModuleOperation(
                placed, operation_name(kind.name), module, run if isinstance(run, int) else 0
            )
        )
    else:
        return False
    return True


def _label(profile: Profile, meaning: Meaning, kind: EventKind, stats: Stats, track: int) -> str:
    """Return the name of an event, and note what it means."""
    parts, name = profile.parts, kind.name
    if meaning is Meaning.STEP:
        label = f"{name} {stats['step_num']}" if "step_num" in stats else name
        parts.step_names.add(label)
        return label
    if meaning is Meaning.INPUT:
        parts.input_names.add(name)
        parts.executors.add(track)
    elif meaning is Meaning.PYTHON:
        return name[1:]
    elif meaning is Meaning.OPERATION:
        if not profile.has_device and not _INPUT_THREADS.match(parts.thread_names[track]):
            parts.executors.add(track)
        return operation_name(name)
    elif meaning is Meaning.STAGE and kind.display_name:
        return kind.display_name
    return f"{PREFIXES.get(meaning, '')}{name}"


def _find_meaning(profile: Profile, name: str, stats: Stats) -> Meaning:
    if "tf_function_call" in stats:
        return Meaning.CALL
    key = name, "step_num" in stats, "hlo_op" in stats, "_src" in stats
    meaning = profile.meanings.get(key)
    if meaning is None:
        meaning = meaning_of(name, is_step=key[1], is_operation=key[2], has_source=key[3])
        profile.meanings[key] = meaning
    return meaning


def settle_threads(profile: Profile) -> None:
    """Find the training thread; put calls of the device, and compiling, on who waited for them."""
    _settle_ranges(profile)
    _settle_main(profile)
    moves: dict[int, int] = {}
    for track, starts in profile.api.items():
        instants = np.sort(np.array(starts, np.int64))
        shares = {
            thread: _share_within(instants, spans) for thread, spans in profile.executing.items()
        }
        best = max(shares, key=shares.__getitem__, default=-1)
        if best >= 0 and shares[best] >= _MIN_SHARE:
            moves[track] = best
    for category in c.CALLS:
        if category in profile.rows:
            rows = profile.rows[category]
            rows.track = [moves.get(track, track) for track in rows.track]
    if profile.parts.main >= 0:
        for start, end, label in _outermost(profile.compiling):
            placed = Placed(start, end, profile.parts.main)
            profile.add(c.CPU_OP, placed, f"{PREFIXES[Meaning.COMPILE]}{label}")


def _settle_ranges(profile: Profile) -> None:
    """Tell the user's ranges from the runtime's, which lie in what it does otherwise."""
    starts_by_track: dict[int, list[int]] = {}
    for placed, _ in profile.ranges:
        starts_by_track.setdefault(placed.track, []).append(placed.start)
    inside = {
        track: iter(_are_within(np.array(starts, np.int64), profile.inside.get(track, [])))
        for track, starts in starts_by_track.items()
    }
    for placed, name in profile.ranges:
        if not next(inside[placed.track]):
            profile.add(c.USER_ANNOTATION, placed, name)
        elif profile.has_device:
            profile.add(c.RUNTIME, placed, name)
        else:
            profile.parts.written += 1


def _are_within(instants: Int64, spans: Spans) -> list[bool]:
    """Return for each instant whether it lies in one of the spans."""
    if not spans:
        return [False] * len(instants)
    bounds = np.array(sorted(spans), np.int64)
    reach = np.maximum.accumulate(bounds[:, 1])
    position = np.searchsorted(bounds[:, 0], instants, side="right") - 1
    return ((position >= 0) & (reach[position] > instants)).tolist()


def _settle_main(profile: Profile) -> None:
    """Take the thread of the steps, else the one of Python that ran most of what launches."""
    parts = profile.parts
    annotations = profile.rows.get(c.USER_ANNOTATION)
    if annotations is not None and parts.step_names:
        steps = {parts.names[name] for name in parts.step_names if name in parts.names}
        pairs = zip(annotations.track, annotations.name, strict=True)
        tracks = [track for track, name in pairs if name in steps]
        parts.main = max(set(tracks), key=tracks.count, default=-1)
    if parts.main < 0:
        counts = {track: len(spans) for track, spans in profile.executing.items()}
        python = {
            track: counts.get(track, 0)
            for track, name in parts.thread_names.items()
            if PYTHON_THREADS.match(name)
        }
        parts.main = max(python, key=python.__getitem__, default=-1)
    parts.executors.discard(parts.main)


def _outermost(spans: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the spans that lie in no earlier one; what overlaps one begins at its end."""
    outer: list[tuple[int, int, str]] = []
    reach = -(1 << 62)
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > reach:
            outer.append((max(start, reach), end, label))
            reach = end
    return outer


def _share_within(instants: Int64, spans: Spans) -> float:
    return float(np.mean(_are_within(instants, spans)))
