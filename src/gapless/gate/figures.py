"""The figures of one arm of a gate: step times, account, memory, and lines of source."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import GaplessError
from gapless.model.host_code import HotLine
from gapless.model.leaf import GROUPS
from gapless.model.recording import Recording
from gapless.study import Options, study_recording
from gapless.verify.arms.alternating import slice_means
from gapless.verify.arms.steady import (
    ArmSteps,
    block_means,
    find_steady_range,
    step_time,
    use_device_times,
)
from gapless.verify.specs import TurnPlan

BASE: Final = "base"
NEW: Final = "new"
_OBSERVER: Final = "observer"  # the leaf of the recorder's own time
MAKING: Final = frozenset(("worker", "making", "choosing"))  # threads of ``HotLine`` that load


class LineShare(Struct, frozen=True):
    """How much of its threads' time a line of source took: an arm's sampled looks at it."""

    file: str  # relative to the folder of its side, where it lies in it
    line: int
    function: str
    text: str  # of the line, without indentation; "": not readable
    loads: bool  # it makes batches
    share: float
    looks: int  # at all lines of such threads


class ArmFigures(Struct, frozen=True):
    """What a gate keeps of an arm."""

    side: str  # BASE or NEW
    turn: int  # arms of one turn are neighbours and pair up
    blocks: tuple[float, ...]  # mean ns of a step, in each block of steady steps, or each slice
    leaves: Mapping[str, float]  # ns a step, by leaf of the account
    groups: Mapping[str, float]  # ns a step, by group
    windowed: bool  # a window split the account
    memory: int | None  # bytes at most, of the GPUs, else of the processes
    lines: tuple[LineShare, ...] = ()
    anchor: str | None = None  # what ends a step: "SGD.step, train.py:41"
    alternates: bool = False  # it stepped in turns with its neighbour, slice by slice
    is_on_device: bool = False  # its steps are those of the device, not of the host

    @property
    def step_ns(self) -> float:
        """Return the time of a step."""
        return step_time(np.array(self.blocks))


def read_figures(
    recording: Recording, side: str, turn: int, folder: Path, *, windowed: bool
) -> ArmFigures:
    """Return the figures of an arm; ``blocks`` are added when all arms of its set are known.

    Raises ``GaplessError`` where it recorded no steps.
    """
    recorded = study_recording(recording, Options(diagnose=False), lambda _: None).recorded
    if recorded is None or recorded.account is None or recorded.steps is None:
        raise GaplessError(f"the command made no two steps (its records: {recording.path})")
    account = recorded.account.account
    count = max(1, account.steps or 0)
    return ArmFigures(
        side=side,
        turn=turn,
        blocks=(),
        leaves={name: ns / count for name, ns in account.leaves.items()},
        groups={name: ns / count for name, ns in account.groups.items() if ns or name in GROUPS},
        windowed=windowed and recorded.windows > 0,
        memory=_measure_memory(recording),
        lines=_read_lines((*recorded.lines, *recorded.loading_lines), folder),
        anchor=recorded.steps.anchor,
    )


def add_slices(
    arms: Sequence[tuple[ArmFigures, ArmSteps]], turns: TurnPlan
) -> tuple[ArmFigures, ...]:
    """Return the figures of arms that stepped in turns, with the step time of each slice.

    Those that have too few steps are left out. What passed in the other's turns is no leaf.
    """
    timed, is_on_device = _time_on_device(arms)
    sliced = [(arm, slice_means(steps.lengths, turns)) for arm, steps in timed]
    return tuple(
        replace(
            arm,
            blocks=tuple(round(mean, 1) for mean in means.tolist()),
            leaves={name: ns for name, ns in arm.leaves.items() if name != _OBSERVER},
            alternates=True,
            is_on_device=is_on_device,
        )
        for arm, means in sliced
        if means is not None
    )


def _time_on_device(
    arms: Sequence[tuple[ArmFigures, ArmSteps]],
) -> tuple[list[tuple[ArmFigures, ArmSteps]], bool]:
    """Return arms with the device's times where all have them, and whether that is so."""
    is_on_device = all(steps.device_lengths is not None for _, steps in arms)
    timed = [(arm, use_device_times(steps) if is_on_device else steps) for arm, steps in arms]
    return timed, is_on_device


def add_blocks(arms: Sequence[tuple[ArmFigures, ArmSteps]]) -> tuple[ArmFigures, ...]:
    """Return the figures of a set of arms with the blocks of those steps that count in all.

    Steps are timed on the device where every arm knows those times.
    """
    timed, is_on_device = _time_on_device(arms)
    steady = find_steady_range([(arm.side, steps) for arm, steps in timed])
    return tuple(
        replace(
            arm,
            blocks=tuple(round(mean, 1) for mean in block_means(steps, steady).tolist()),
            is_on_device=is_on_device,
        )
        for arm, steps in timed
    )


def figures_to_json(arm: ArmFigures) -> dict[str, Any]:
    """Return an arm as JSON's types."""
    rounded = {name: round(ns, 1) for name, ns in arm.leaves.items()}
    groups = {name: round(ns, 1) for name, ns in arm.groups.items()}
    return msgspec.to_builtins(replace(arm, leaves=rounded, groups=groups))


def figures_from_json(values: Mapping[str, Any]) -> ArmFigures:
    """Read an arm back. Raises ``KeyError`` or ``TypeError`` where it is none."""
    return ArmFigures(
        side=str(values["side"]),
        turn=int(values["turn"]),
        blocks=tuple(map(float, values["blocks"])),
        leaves=dict(values["leaves"]),
        groups=dict(values["groups"]),
        windowed=bool(values["windowed"]),
        memory=values["memory"],
        lines=tuple(LineShare(**line) for line in values["lines"]),
        anchor=values["anchor"],
        alternates=values.get("alternates", False),
        is_on_device=values.get("is_on_device", False),
    )


def _measure_memory(recording: Recording) -> int | None:
    series = recording.samples.series
    for ending in (".memory_used", ".rss"):
        peaks = [max(values) for name, (_, values) in series.items() if name.endswith(ending)]
        if peaks := [peak for peak in peaks if peak > 0]:
            return round(sum(peaks))
    return None


def _read_lines(lines: Sequence[HotLine], folder: Path) -> tuple[LineShare, ...]:
    looks = {
        loads: sum(line.count for line in lines if (line.thread in MAKING) == loads)
        for loads in (False, True)
    }
    return tuple(
        _read_line(line, folder, looks[line.thread in MAKING]) for line in lines if line.count
    )


def _read_line(line: HotLine, folder: Path, looks: int) -> LineShare:
    path = Path(line.file)
    text = ""
    with suppress(OSError, IndexError, UnicodeDecodeError):
        text = path.read_text(encoding="utf-8").splitlines()[line.line - 1].strip()
    name = line.file
    with suppress(ValueError):
        name = str(path.resolve().relative_to(folder.resolve()))
    share = round(line.share, 5)
    return LineShare(name, line.line, line.function, text, line.thread in MAKING, share, looks)
