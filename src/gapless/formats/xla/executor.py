"""XLA's executor on the host, told as a device: calls hand work to it and go on.

JAX on the CPU dispatches ahead, as on a GPU. Which call an execution belongs to is told by its
module and its place among the executions of it, where both were recorded completely.
"""

from collections.abc import Iterable
from typing import Final

from gapless.formats.rows import DeviceFields, Placed
from gapless.formats.xla.profile import (
    ModuleCall,
    ModuleOperation,
    Profile,
)
from gapless.model import category as c

EXECUTOR: Final = "XLA's executor on the CPU"


def add_executions(profile: Profile) -> None:
    """Add the operations of compiled functions as what a device did, and their calls."""
    calls = [call for track in profile.calls.values() for call in _outermost_calls(track)]
    launches = _match_calls(calls, profile.operations)
    for number, call in enumerate(calls, 1):
        profile.add(c.RUNTIME, call.placed, call.label, number)
    parts = profile.parts
    streams: dict[int, int] = {}
    for operation in profile.operations:
        stream = streams.setdefault(operation.placed.track, len(streams))
        track = parts.track_id(EXECUTOR, f"thread {stream}")
        placed = Placed(operation.placed.start, operation.placed.end, track)
        launch = launches.get((operation.module, operation.run), -1)
        profile.add(c.KERNEL, placed, operation.label, launch, DeviceFields(0, stream))


def _outermost_calls(calls: list[ModuleCall]) -> list[ModuleCall]:
    outer: list[ModuleCall] = []
    for call in sorted(calls, key=lambda call: (call.placed.start, -call.placed.end)):
        if not outer or call.placed.end > outer[-1].placed.end:
            outer.append(call)
    return outer


def _match_calls(
    calls: Iterable[ModuleCall], operations: Iterable[ModuleOperation]
) -> dict[tuple[str, int], int]:
    """Return the number of the call, from 1 on, of each execution of a module."""
    numbers: dict[str, list[int]] = {}
    for number, call in enumerate(calls, 1):
        numbers.setdefault(call.module, []).append(number)
    first_starts: dict[str, dict[int, int]] = {}
    for operation in operations:
        runs = first_starts.setdefault(operation.module, {})
        start = operation.placed.start
        runs[operation.run] = min(start, runs.get(operation.run, start))
    launches: dict[tuple[str, int], int] = {}
    for module, runs in first_starts.items():
        of_module = numbers.get(module, [])
        if len(of_module) == len(runs):
            ordered = sorted(runs, key=runs.__getitem__)
            launches |= {
                (module, run): number for run, number in zip(ordered, of_module, strict=True)
            }
    return launches
