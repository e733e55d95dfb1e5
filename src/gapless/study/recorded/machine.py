"""The machine meanwhile: sampled series in equal stretches of time, energy, cost."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.recording import Samples
from gapless.model.run import Cost, Energy, Others, Series
from gapless.model.trace import Int64
from gapless.study.recorded.processors import Room

_STRETCHES: Final = 48
_NS: Final = 1e-9
_HOUR: Final = 3.6e12  # ns
_PER_CENT: Final = 100.0
_FEW: Final = 0.2  # of the processors
_WITHIN: Final = 0.9  # of the time that a sample is the mean of
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Kind:
    pattern: re.Pattern[str]
    title: str  # with what the pattern found, if it has a group
    unit: str
    scale: float = 1.0
    ceiling: float | None = None
    least: float = 0.0  # a series that never exceeds it says nothing


def _kind(pattern: str, title: str, unit: str, **rest: float) -> _Kind:
    return _Kind(re.compile(pattern), title, unit, **rest)


_KINDS: Final = (  # in the order of the page
    _kind(r"gpu(\d+)\.sm", "GPU {} runs a kernel", "%", ceiling=100),
    _kind(r"gpu(\d+)\.gpm\.sm", "GPU {} SMs in use", "%", ceiling=100),
    _kind(r"gpu(\d+)\.gpm\.tensor", "GPU {} tensor cores", "%", ceiling=100),
    _kind(r"gpu(\d+)\.memory_used", "GPU {} memory", "GiB", scale=2**-30),
    _kind(r"gpu(\d+)\.power", "GPU {} power", "W"),
    _kind(r"gpu(\d+)\.clock_sm", "GPU {} clock", "MHz"),
    _kind(r"gpu(\d+)\.pcie_rx", "GPU {} PCIe in", "MB/s", scale=1e-6, least=1),
    _kind(r"cpu\.tree", "CPU of this run", "cores", scale=0.01),
    _kind(r"cpu\.total", "CPU of the machine", "cores", scale=0.01),
    _kind(r"cpu\.foreign", "CPU of others", "cores", scale=0.01, least=0.1),
    _kind(r"cpu\.throttled", "CPU held back", "%", ceiling=100, least=1),
    _kind(r"pressure\.cpu\.some", "waited for a CPU", "%", ceiling=100, least=1),
    _kind(r"disk\.(.+)\.read", "disk {} read", "MB/s", scale=1e-6, least=1),
    _kind(r"disk\.(.+)\.written", "disk {} written", "MB/s", scale=1e-6, least=1),
    _kind(r"pressure\.io\.some", "waited for disks", "%", ceiling=100, least=1),
    _kind(r"memory\.available", "memory free", "GiB", scale=2**-30),
    _kind(r"memory\.shared_used", "shared memory", "GiB", scale=2**-30, least=0.05),
    _kind(r"network\.(.+)\.received", "network {} in", "MB/s", scale=1e-6, least=1),
)


def machine_series(samples: Samples, span: tuple[int, int]) -> tuple[Series, ...]:
    """Give the known series of a run, each in up to 48 equal stretches."""
    most = max((len(at) for at, _ in samples.series.values()), default=0)
    return tuple(_series(samples, span, max(1, min(_STRETCHES, most * 2 // 3))))


def _series(samples: Samples, span: tuple[int, int], many: int) -> Iterator[Series]:
    for kind in _KINDS:
        for name in sorted(samples.series):
            found = kind.pattern.fullmatch(name)
            values = _values(samples.series[name][1]) * kind.scale
            if not found or not len(values) or values.max() <= kind.least:
                continue
            yield Series(
                name=name,
                title=kind.title.format(*found.groups()),
                unit=kind.unit,
                mean=float(values.mean()),
                low=float(values.min()),
                high=float(values.max()),
                points=_points(samples.series[name][0], values, span, many),
                ceiling=kind.ceiling or _ceiling(samples, name, kind.scale),
            )


def _ceiling(samples: Samples, name: str, scale: float) -> float | None:
    """Give the size of a memory, where it was sampled beside its use."""
    whole = re.sub(r"(_used|available)$", lambda end: _WHOLE[end[0]], name)
    found = samples.series.get(whole) if whole != name else None
    return max(found[1]) * scale if found and found[1] else None


_WHOLE: Final = {"_used": "_total", "available": "total"}


def _values(values: Iterable[float]) -> Float:
    return np.array(tuple(values), np.float64)


def _points(at: Int64, values: Float, span: tuple[int, int], many: int) -> tuple[float | None, ...]:
    """Give the mean of each stretch of time, ``None`` where nothing was sampled."""
    width = max(1, span[1] - span[0])
    place = np.clip((at - span[0]) * many // width, 0, many - 1)
    sums, counts = np.zeros(many), np.zeros(many)
    np.add.at(sums, place, values)
    np.add.at(counts, place, 1)
    return tuple(
        float(total / count) if count else None for total, count in zip(sums, counts, strict=True)
    )


def gpus(samples: Samples) -> tuple[str, ...]:
    """Give the GPUs that the run used: those that were sampled at least half as often as any."""
    counts: dict[str, int] = {}
    for name, (at, _) in samples.series.items():
        found = re.match(r"gpu\d+(?=\.)", name)
        if found:
            counts[found[0]] = max(counts.get(found[0], 0), len(at))
    most = max(counts.values(), default=0)
    return tuple(sorted(name for name, many in counts.items() if 2 * many >= most))


def utilisation(samples: Samples) -> float | None:
    """Give the share of the sampled time in which a kernel ran, as ``nvidia-smi`` counts it."""
    found = [samples.series.get(f"{gpu}.sm") for gpu in gpus(samples)]
    means = [_mean(at, _values(values)) for at, values in filter(None, found) if len(values)]
    return sum(means) / len(means) / _PER_CENT if means else None


def _mean(at: Int64, values: Float) -> float:
    """Give the mean over time: the line through the samples."""
    length = np.diff(at)
    middle = (values[1:] + values[:-1]) / 2
    return float((middle * length).sum() / length.sum()) if length.sum() else float(values.mean())


def others(samples: Samples, room: Room, steps: tuple[int, int] | None = None) -> Others | None:
    """Give what others took of the processors of a run; ``None`` where that was not sampled.

    While ``steps`` were made, where a look tells of that alone: what others did while the training
    was set up costs no step anything. Of a run that is bound to some processors, what others took
    of these counts; where that was not sampled, what they took beyond all the other ones.
    """
    cores, bound = _contended(samples, room, steps)
    if cores is None:
        return None
    stolen = _cores(samples, "cpu.stolen", steps)
    usable = room.usable
    if bound is None or usable is None:
        return Others(cores, stolen, usable)
    part = usable / max(bound, room.machine or bound)  # the hypervisor takes from all alike
    return Others(
        room.left_by(cores, bound), None if stolen is None else stolen * part, min(usable, bound)
    )


def _contended(
    samples: Samples, room: Room, steps: tuple[int, int] | None
) -> tuple[float | None, int | None]:
    """Give what others took of the processors that a run is bound to, and how many these are."""
    cores = _cores(samples, "cpu.contending", steps)
    allowed = _cores(samples, "cpu.allowed", steps)
    if cores is not None and allowed is not None:
        return cores, round(allowed)
    foreign, bound = _cores(samples, "cpu.foreign", steps), room.bound or room.machine
    if foreign is None or bound is None or room.machine is None:
        return foreign, bound
    return max(0.0, foreign - (room.machine - bound)), bound


def are_few(taken: Others | None) -> bool:
    """Tell whether others took so little of the processors that steps are as long as they are."""
    return taken is None or not taken.processors or taken.cores < _FEW * taken.processors


def within(at: Int64, span: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Tell which samples are of a span: each is the mean since the one before it.

    One that began before the span counts only if no other does.
    """
    first, last = span
    since = np.append(at[:1], at[:-1])  # since when the first one counts is not known
    inside = (at >= first) & (at <= last)
    whole = inside & (at - np.maximum(since, first) >= _WITHIN * np.maximum(at - since, 1))
    return whole if whole.any() else inside


def _cores(samples: Samples, name: str, steps: tuple[int, int] | None) -> float | None:
    at, known = samples.series.get(name, (np.empty(0, np.int64), ()))
    values = _values(known)
    inside = within(at, steps) if steps is not None else np.zeros(len(at), bool)
    if inside.any():
        return float(values[inside].mean()) / _PER_CENT
    return _mean(at, values) / _PER_CENT if len(values) else None


def energy(samples: Samples) -> Energy | None:
    """Give what the used GPUs drew while they were sampled: by their counters, else their power."""
    drawn: list[tuple[float, float | None, str]] = []
    for gpu in gpus(samples):
        one = _counted(samples.series, gpu) or _integrated(samples.series, gpu)
        if one is not None:
            drawn.append(one)
    if not drawn:
        return None
    idle = [one[1] for one in drawn if one[1] is not None]
    return Energy(
        joules=sum(one[0] for one in drawn),
        idle_joules=sum(idle) if len(idle) == len(drawn) else None,
        source=drawn[0][2],
    )


Columns = Mapping[str, tuple[Int64, tuple[float, ...]]]


def _counted(series: Columns, gpu: str) -> tuple[float, float | None, str] | None:
    at, values = series.get(f"{gpu}.energy", (np.empty(0, np.int64), ()))
    if len(values) < 2:  # noqa: PLR2004 - a counter's difference
        return None
    return values[-1] - values[0], _idle(series, gpu, at, np.diff(values)), "energy counter"


def _integrated(series: Columns, gpu: str) -> tuple[float, float | None, str] | None:
    at, values = series.get(f"{gpu}.power", (np.empty(0, np.int64), ()))
    if len(values) < 2:  # noqa: PLR2004 - nothing lies between
        return None
    watts = _values(values)
    drawn = (watts[1:] + watts[:-1]) / 2 * np.diff(at) * _NS
    return float(drawn.sum()), _idle(series, gpu, at, drawn), "sampled power"


def _idle(series: Columns, gpu: str, at: Int64, drawn: Float) -> float | None:
    """Give the part of what was drawn in which no kernel ran: by the utilisation meanwhile."""
    known = series.get(f"{gpu}.sm")
    if known is None or not len(known[0]):
        return None
    busy = (np.interp(at, known[0], _values(known[1])) / _PER_CENT).clip(0, 1)
    return float((drawn * (1 - (busy[1:] + busy[:-1]) / 2)).sum())


def cost(price: float, devices: int, wall_ns: int, worked: tuple[float, str] | None) -> Cost:
    """Give what some devices cost; ``worked`` is the share of the time in which they did."""
    whole = price * devices * wall_ns / _HOUR
    idle = None if worked is None else 1 - worked[0]
    return Cost(
        price=price,
        devices=devices,
        whole=whole,
        idle=None if idle is None else whole * idle,
        idle_share=idle,
        source=None if worked is None else worked[1],
    )
