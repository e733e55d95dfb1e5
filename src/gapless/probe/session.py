"""Take the measurements one after the other, and report what each gave as soon as it has ended.

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
    copies,
    data_files,
    launches,
    packages,
    processes,
    processors,
    surroundings,
)
from .figures import ProbeConditions, ProbeFigure, describe_error, make_absent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .figures import Measurement

FORM = 1
MEASUREMENTS = (  # in this order: the last ones suffer if time runs out, or a disk hangs
    *launches.MEASUREMENTS,
    *copies.MEASUREMENTS,
    *arithmetic.MEASUREMENTS,
    *processors.MEASUREMENTS,
    *processes.MEASUREMENTS,
    *data_files.MEASUREMENTS,
)
_SECONDS, _SECONDS_GPU = 12.0, 25.0
_AFTER_IMPORT = 0.5  # of the time: so much is left however long torch took to import
_PATIENCE = 3.0  # times the time, and the kernel ends us
_LARGEST, _LARGEST_GPU = 256 << 20, 512 << 20
_BUFFER_DIVISOR = 16  # of the memory that is free: one buffer
_LATE = "no time was left"
_MIN_FREE_BYTES = 2 << 30  # bytes of the GPU's memory, or it is left alone


class _ProbeState(NamedTuple):
    """What measurements need, or why it is not there."""

    torch: str | None  # why there is none
    gpu: str | None
    until: float
    conditions: ProbeConditions


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for; 0 if it came to its end."""
    options = _options(arguments)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write_line(line: dict[str, Any]) -> None:
        out.write(json.dumps({"gapless_probe": FORM, **line}) + "\n")
        out.flush()

    if options.packages:
        _list_packages(write_line)
        return 0
    identity = surroundings.identity(options.device, options.path)
    write_line({"machine": identity})
    if not options.identify:
        _measure(options, identity, write_line)
    return 0


def _list_packages(write_line: Callable[[dict[str, Any]], None]) -> None:
    """Write what is known of the interpreter's packages after each stage."""
    facts: dict[str, Any] = {}
    for name, stage in packages.STAGES.items():
        try:
            facts.update(stage(facts))
        except Exception as error:
            facts[f"{name}_why"] = describe_error(error)
        write_line({"packages": facts})
    write_line({"packages": {**facts, "complete": True}})


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the machine's constants.")
    parser.add_argument("--json", action="store_true", help="as it does anyway")
    parser.add_argument("--identify", action="store_true", help="say where this is, no more")
    parser.add_argument("--packages", action="store_true", help="say what is installed, no more")
    parser.add_argument("--device", type=int, help="number of the GPU to measure; none: no GPU")
    parser.add_argument("--path", help="a folder, or a file, of the training's data")
    parser.add_argument("--file", action="append", default=[], help="to be read; may be repeated")
    parser.add_argument(
        "--readers", type=int, action="append", default=[], help="of files at a time; repeatable"
    )
    parts = sorted({measurement.part_name for measurement in MEASUREMENTS})
    parser.add_argument("--part", action="append", choices=parts, help="only this; repeatable")
    parser.add_argument("--seconds", type=float, help="for all; usually 12, with a GPU 25")
    parser.add_argument("--scale", type=float, default=1.0, help="of each measurement's time")
    parser.add_argument("--largest", type=int, help="bytes of a buffer, at most")
    parser.add_argument("--least-free", type=int, default=_MIN_FREE_BYTES, help="bytes, on the GPU")
    return parser.parse_args(arguments)


def _measure(
    options: argparse.Namespace,
    identity: dict[str, Any],
    write_line: Callable[[dict[str, Any]], None],
) -> None:
    began = time.monotonic()
    usual = _SECONDS if options.device is None else _SECONDS_GPU
    seconds = usual if options.seconds is None else options.seconds
    signal.setitimer(signal.ITIMER_REAL, max(seconds * _PATIENCE, seconds + 30))
    warnings.simplefilter("ignore")
    measurements = [
        measurement
        for measurement in MEASUREMENTS
        if not options.part or measurement.part_name in options.part
    ]
    state = _prepare(options, identity, measurements, write_line)
    if options.device is not None:
        write_line({"machine": {**identity, "gpu": {**identity["gpu"], "why": state.gpu}}})
    now = time.monotonic()
    until = max(began + seconds, now + seconds * _AFTER_IMPORT)
    state = state._replace(until=until)
    for measurement in measurements:
        write_line({"begin": measurement.part_name})
        write_line(_take_measurement(measurement, state, options.scale))
    write_line({"ended": time.monotonic() - began})


def _prepare(
    options: argparse.Namespace,
    identity: dict[str, Any],
    measurements: Sequence[Measurement],
    write_line: Callable[[dict[str, Any]], None],
) -> _ProbeState:
    """Import torch and look at the GPU; note why, where they cannot be used."""
    torch, gpu = None, _refuse_gpu(identity["gpu"], options.least_free)
    largest = _LARGEST if gpu else _LARGEST_GPU
    if any(measurement.torch and not (measurement.gpu and gpu) for measurement in measurements):
        write_line({"begin": "torch"})
        try:
            import torch as _  # noqa: F401
        except Exception as error:
            torch = describe_error(error)
    gpu = gpu or torch
    if gpu is None and any(measurement.torch for measurement in measurements):
        try:
            largest = min(largest, _open_gpu(options.device) // _BUFFER_DIVISOR)
        except Exception as error:
            gpu = describe_error(error)
    largest = min(largest, options.largest or largest, _read_available_memory() // _BUFFER_DIVISOR)
    device = options.device if gpu is None else None
    readers = tuple(options.readers)
    conditions = ProbeConditions(device, options.path, tuple(options.file), largest, 0.0, readers)
    return _ProbeState(torch, gpu, 0.0, conditions)


def _refuse_gpu(gpu: dict[str, Any] | None, min_free_bytes: int) -> str | None:
    """Return why the GPU is left alone, before anything is put on it; ``None``: it is not."""
    if gpu is None:
        return "no GPU was asked for"
    if "why" in gpu:
        return gpu["why"]
    free = gpu["free_bytes"]
    if free is not None and free < min_free_bytes:
        return f"only {free / 2**30:.1f} GiB of the GPU's memory is free"
    return None


def _open_gpu(device: int) -> int:
    """Make the GPU ready; return the bytes of its memory that are free."""
    import torch

    torch.cuda.set_device(device)
    return int(torch.cuda.mem_get_info()[0])


def _read_available_memory() -> int:
    """Return the bytes of memory that could be had."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return _LARGEST * _BUFFER_DIVISOR


def _take_measurement(measurement: Measurement, state: _ProbeState, scale: float) -> dict[str, Any]:
    """Take one measurement; whatever goes wrong is why its constants are absent."""
    began, before = time.monotonic(), surroundings.busy_s()
    figures: list[ProbeFigure] = []
    why = _find_hindrance(measurement, state, began)
    try:
        if why is None:
            until = min(state.until, began + measurement.seconds * scale)
            figures.extend(measurement.act(state.conditions._replace(until=until)))
    except Exception as error:
        why = describe_error(error)
    given_names = {figure.name for figure in figures}
    absent_names = [name for name in measurement.units if name not in given_names]
    figures.extend(make_absent(name, why or "it gave nothing") for name in absent_names)
    took = time.monotonic() - began
    return {
        "part": measurement.part_name,
        "figures": [figure._asdict() for figure in figures],
        "units": dict(measurement.units),
        "method": " ".join((inspect.getdoc(measurement.act) or "").split()),
        "late": why == _LATE,
        "took_s": took,
        "foreign": _foreign_processors(before, took),
    }


def _find_hindrance(measurement: Measurement, state: _ProbeState, now: float) -> str | None:
    if measurement.gpu and state.gpu:
        return state.gpu
    if measurement.torch and state.torch:
        return state.torch
    lacking = measurement.explain_lack(state.conditions)
    if lacking:
        return lacking
    return _LATE if now > state.until else None


_TELLING_S = 0.2  # the kernel counts processor time in hundredths of a second


def _foreign_processors(before: tuple[float, float] | None, took: float) -> float | None:
    """Return the processors that others kept busy meanwhile; ``None``: too short to know."""
    after = surroundings.busy_s()
    if before is None or after is None or took < _TELLING_S:
        return None
    return max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / took
