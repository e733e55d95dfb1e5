"""Take the measurements one after the other, and tell what each gave as soon as it has ended.

Each line on stdout is a JSON object with the key "gapless_probe": the number of this form.
{"machine": …} comes first, once more if the GPU is looked at; {"begin": part} before each
measurement and {"figures": …, "units": …, "method": …, "took_s": …, "foreign": …} after it;
{"ended": seconds} last. Others' lines, of the user's own start-up code say, go to stderr.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from . import (
    arithmetic,
    collectives,
    copies,
    decoding,
    launches,
    processes,
    processors,
    profiling,
    storage,
    surroundings,
)
from .figures import Figure, Room, absent, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .figures import Measurement

FORM = 1
MEASUREMENTS = (  # in this order: the last ones suffer if time runs out, or a disk hangs
    *profiling.MEASUREMENTS,  # its first start in a process is one of the constants
    *launches.MEASUREMENTS,
    *copies.MEASUREMENTS,
    *arithmetic.MEASUREMENTS,
    *processors.MEASUREMENTS,
    *collectives.MEASUREMENTS,
    *decoding.MEASUREMENTS,
    *processes.QUICK,
    *storage.MEASUREMENTS,
    *processes.SLOW,
)
_SECONDS, _SECONDS_GPU = 12.0, 25.0
_AFTER_IMPORT = 0.5  # of the time: so much is left however long torch took to import
_IMPORTS = 1.5  # times what importing torch took here, it may take in fresh processes
_PATIENCE = 3.0  # times the time, and the kernel ends us
_LARGEST, _LARGEST_GPU = 256 << 20, 512 << 20
_SHARE = 16  # of the memory that is free: one buffer
_LATE = "no time was left"
_LEAST_FREE = 2 << 30  # bytes of the GPU's memory, or it is left alone


class _State(NamedTuple):
    """What measurements need, or why it is not there."""

    torch: str | None  # why there is none
    gpu: str | None
    until: float
    room: Room


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for; 0 if it came to its end."""
    options = _options(arguments)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(line: dict[str, Any]) -> None:
        out.write(json.dumps({"gapless_probe": FORM, **line}) + "\n")
        out.flush()

    identity = surroundings.identity(options.device, options.path)
    tell({"machine": identity})
    if not options.identify:
        _measure(options, identity, tell)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the machine's constants.")
    parser.add_argument("--json", action="store_true", help="as it does anyway")
    parser.add_argument("--identify", action="store_true", help="say where this is, no more")
    parser.add_argument("--device", type=int, help="number of the GPU to measure; none: no GPU")
    parser.add_argument("--path", help="a folder, or a file, of the training's data")
    parser.add_argument("--file", action="append", default=[], help="to be read; may be repeated")
    parser.add_argument("--ranks", type=int, default=1, help="processes that reduce together")
    parts = sorted({one.part for one in MEASUREMENTS})
    parser.add_argument("--part", action="append", choices=parts, help="only this; repeatable")
    parser.add_argument("--seconds", type=float, help="for all; usually 12, with a GPU 25")
    parser.add_argument("--scale", type=float, default=1.0, help="of each measurement's time")
    parser.add_argument("--largest", type=int, help="bytes of a buffer, at most")
    parser.add_argument("--least-free", type=int, default=_LEAST_FREE, help="bytes, on the GPU")
    return parser.parse_args(arguments)


def _measure(
    options: argparse.Namespace, identity: dict[str, Any], tell: Callable[[dict[str, Any]], None]
) -> None:
    began = time.monotonic()
    usual = _SECONDS if options.device is None else _SECONDS_GPU
    seconds = usual if options.seconds is None else options.seconds
    signal.setitimer(signal.ITIMER_REAL, max(seconds * _PATIENCE, seconds + 30))
    warnings.simplefilter("ignore")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    wanted = [one for one in MEASUREMENTS if not options.part or one.part in options.part]
    state = _prepare(options, identity, wanted, tell)
    if options.device is not None:
        tell({"machine": {**identity, "gpu": {**identity["gpu"], "why": state.gpu}}})
    now = time.monotonic()
    until = max(began + seconds, now + seconds * _AFTER_IMPORT)
    if options.seconds is None:  # several processes have to start before they reduce together
        late = [one for one in wanted if one in collectives.MEASUREMENTS]
        until += sum(_needed(one, state.room) for one in late if one.lacks(state.room) is None)
    state = state._replace(until=until)
    for one in wanted:
        tell({"begin": one.part})
        tell(_taken(one, state, options.scale))
    tell({"ended": time.monotonic() - began})


def _prepare(
    options: argparse.Namespace,
    identity: dict[str, Any],
    wanted: Sequence[Measurement],
    tell: Callable[[dict[str, Any]], None],
) -> _State:
    """Import torch and look at the GPU; say why not, where they cannot be used."""
    torch, gpu, began = None, _refused(identity["gpu"], options.least_free), time.monotonic()
    largest = _LARGEST if gpu else _LARGEST_GPU
    if any(one.torch and not (one.gpu and gpu) for one in wanted):
        tell({"begin": "torch"})
        try:
            import torch as _  # noqa: F401
        except Exception as error:
            torch = reason(error)
    import_s = time.monotonic() - began
    gpu = gpu or torch
    if gpu is None and any(one.torch for one in wanted):
        try:
            largest = min(largest, _opened(options.device) // _SHARE)
        except Exception as error:
            gpu = reason(error)
    largest = min(largest, options.largest or largest, _memory() // _SHARE)
    device = options.device if gpu is None else None
    room = Room(device, options.path, tuple(options.file), options.ranks, largest, 0.0, import_s)
    return _State(torch, gpu, 0.0, room)


def _refused(gpu: dict[str, Any] | None, least: int) -> str | None:
    """Say why the GPU is left alone, before anything is put on it; ``None``: it is not."""
    if gpu is None:
        return "no GPU was asked for"
    if "why" in gpu:
        return gpu["why"]
    free = gpu["free_bytes"]
    if free is not None and free < least:
        return f"only {free / 2**30:.1f} GiB of the GPU's memory is free"
    return None


def _opened(device: int) -> int:
    """Make the GPU ready; give the bytes of its memory that are free."""
    import torch

    torch.cuda.set_device(device)
    return int(torch.cuda.mem_get_info()[0])


def _memory() -> int:
    """Give the bytes of memory that could be had."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
            told = dict(line.split(":", 1) for line in file)
        return int(told["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return _LARGEST * _SHARE


def _taken(one: Measurement, state: _State, scale: float) -> dict[str, Any]:
    """Take one measurement; whatever goes wrong is why its constants are absent."""
    began, before = time.monotonic(), surroundings.busy_s()
    figures: list[Figure] = []
    why = _hindrance(one, state, began)
    try:
        if why is None:
            until = min(state.until, began + one.seconds * scale)
            figures.extend(one.act(state.room._replace(until=until)))
    except Exception as error:
        why = reason(error)
    given = {each.name for each in figures}
    missing = [name for name in one.units if name not in given]
    figures.extend(absent(name, why or "it gave nothing") for name in missing)
    took = time.monotonic() - began
    return {
        "part": one.part,
        "figures": [each._asdict() for each in figures],
        "units": dict(one.units),
        "method": " ".join((inspect.getdoc(one.act) or "").split()),
        "late": why == _LATE,
        "took_s": took,
        "foreign": _foreign(before, took),
    }


def _hindrance(one: Measurement, state: _State, now: float) -> str | None:
    if one.gpu and state.gpu:
        return state.gpu
    if one.torch and state.torch:
        return state.torch
    lacking = one.lacks(state.room)
    if lacking:
        return lacking
    needed = _needed(one, state.room) if one.imports else 0.0
    return _LATE if now + needed > state.until else None


def _needed(one: Measurement, room: Room) -> float:
    """Give the seconds that a measurement in fresh processes takes, which import torch."""
    return _IMPORTS * room.import_s + one.seconds


_TELLING_S = 0.2  # the kernel counts processor time in hundredths of a second


def _foreign(before: tuple[float, float] | None, took: float) -> float | None:
    """Give the processors that others kept busy meanwhile; ``None``: too short to tell."""
    after = surroundings.busy_s()
    if before is None or after is None or took < _TELLING_S:
        return None
    return max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / took
