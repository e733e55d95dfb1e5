"""The line of source at which a side takes longer: sampled looks of both sides compared."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gapless.gate.figures import BASE, NEW, ArmFigures, LineShare

_MIN_SCORE: Final = 2.0  # standard errors by which a line's time must have grown
_MIN_PART: Final = 0.2  # of the growth of its leaf, that a line explains
_Key = tuple[str, str, str, bool]  # lines move: they are known by file, function and text


class GrownLine(Struct, frozen=True):
    """A line that takes more of a step, in ns; ``is_new``: the other side has none like it."""

    file: str
    line: int
    function: str
    text: str
    delta_ns: float
    is_new: bool


class _LineTime(Struct, frozen=True):
    where: LineShare
    ns: float  # a step
    error_ns: float


def find_grown_line(
    arms: Sequence[ArmFigures], *, loads: bool, growth_ns: float
) -> GrownLine | None:
    """Return the line whose time grew most surely; ``None`` where looks do not show it.

    ``loads``: of lines that make batches, else of the others. Looks are counts, so a line that
    takes long on both sides differs by chance more than a new one: growth counts by its error.
    """
    base, new = (_sum_lines(arms, side, loads=loads) for side in (BASE, NEW))
    best: tuple[float, GrownLine] | None = None
    for key, time in new.items():
        before = base.get(key)
        delta_ns = time.ns - (before.ns if before else 0.0)
        score = delta_ns / math.hypot(time.error_ns, before.error_ns if before else 0.0)
        is_enough = score >= _MIN_SCORE and delta_ns >= _MIN_PART * growth_ns
        if is_enough and (best is None or score > best[0]):
            where = time.where
            line = GrownLine(
                where.file, where.line, where.function, where.text, delta_ns, before is None
            )
            best = score, line
    return best[1] if best else None


def _sum_lines(arms: Iterable[ArmFigures], side: str, *, loads: bool) -> Mapping[_Key, _LineTime]:
    """Return the time of each line of a side, over its arms."""
    arms = [arm for arm in arms if arm.side == side and arm.blocks]
    times: dict[_Key, list[tuple[LineShare, float]]] = {}
    looks = 0
    for arm in arms:
        mine = [line for line in arm.lines if line.loads == loads]
        looks += max((line.looks for line in mine), default=0)
        for line in mine:
            key = (line.file, line.function, line.text or str(line.line), loads)
            times.setdefault(key, []).append((line, line.share * arm.step_ns))
    if not looks:
        return {}
    step_ns = sum(arm.step_ns for arm in arms) / len(arms)
    return {key: _average(rows, len(arms), step_ns, looks) for key, rows in times.items()}


def _average(
    rows: Sequence[tuple[LineShare, float]], count: int, step_ns: float, looks: int
) -> _LineTime:
    ns = sum(time for _, time in rows) / count
    share = min(1.0, ns / step_ns)
    error = math.sqrt(max(share * (1 - share), 1 / looks) / looks)
    return _LineTime(max(rows, key=lambda row: row[1])[0], ns, error * step_ns)
