"""The machine during a run: sampled series in equal stretches of time, energy, cost."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.recording import Samples
from gapless.model.run import CpuContention, Energy, RunCost, Series
from gapless.model.trace import Int64
from gapless.recorded.machine.processors import ProcessorLimits

_MAX_POINTS: Final = 48
_MAX_PICTURED_POINTS: Final = 600
_S_PER_NS: Final = 1e-9
_NS_PER_HOUR: Final = 3.6e12  # ns
_PER_CENT: Final = 100.0
_MIN_CONTENDED_SHARE: Final = 0.2  # of the processors
_MIN_INSIDE_SHARE: Final = 0.9  # of the time that a sample is the mean of
Float = npt.NDArray[np.float64]


class _SeriesKind(Struct, frozen=True):
    pattern: re.Pattern[str]
    title: str  # with what the pattern found, if it has a group
    unit: str
    scale: float = 1.0
    ceiling: float | None = None
    least: float = 0.0  # a series that never exceeds it says nothing


def _series_kind(pattern: str, title: str, unit: str, **options: float) -> _SeriesKind:
    return _SeriesKind(re.compile(pattern), title, unit, **options)


_KINDS: Final = (  # in the order of the page
    _series_kind(r"gpu(\d+)\.sm", "GPU {} runs a kernel", "%", ceiling=100),
    _series_kind(r"gpu(\d+)\.gpm\.sm", "GPU {} SMs in use", "%", ceiling=100),
    _series_kind(r"gpu(\d+)\.gpm\.tensor", "GPU {} tensor cores", "%", ceiling=100),
    _series_kind(r"gpu(\d+)\.memory_used", "GPU {} memory", "GiB", scale=2**-30),
    _series_kind(r"gpu(\d+)\.power", "GPU {} power", "W"),
    _series_kind(r"gpu(\d+)\.clock_sm", "GPU {} clock", "MHz"),
    _series_kind(r"gpu(\d+)\.pcie_rx", "GPU {} PCIe in", "MB/s", scale=1e-6, least=1),
    _series_kind(r"cpu\.tree", "CPU of this run", "cores", scale=0.01),
    _series_kind(r"cpu\.total", "CPU of the machine", "cores", scale=0.01),
    _series_kind(r"cpu\.foreign", "CPU of others", "cores", scale=0.01, least=0.1),
    _series_kind(r"cpu\.throttled", "CPU held back", "%", ceiling=100, least=1),
    _series_kind(r"pressure\.cpu\.some", "waited for a CPU", "%", ceiling=100, least=1),
    _series_kind(r"disk\.(.+)\.read", "disk {} read", "MB/s", scale=1e-6, least=1),
    _series_kind(r"disk\.(.+)\.written", "disk {} written", "MB/s", scale=1e-6, least=1),
    _series_kind(r"pressure\.io\.some", "waited for disks", "%", ceiling=100, least=1),
    _series_kind(r"memory\.available", "memory free", "GiB", scale=2**-30),
    _series_kind(r"memory\.shared_used", "shared memory", "GiB", scale=2**-30, least=0.05),
    _series_kind(r"network\.(.+)\.received", "network {} in", "MB/s", scale=1e-6, least=1),
)


def machine_series(
    samples: Samples, span: tuple[int, int], *, pictured: bool = False
) -> tuple[Series, ...]:
    """Return the known series of a run, each in up to 48 equal stretches; 600 for a page."""
    max_points = _MAX_PICTURED_POINTS if pictured else _MAX_POINTS
    max_samples = max((len(times) for times, _ in samples.series.values()), default=0)
    return tuple(_iter_series(samples, span, max(1, min(max_points, max_samples * 2 // 3))))


def _iter_series(samples: Samples, span: tuple[int, int], n_points: int) -> Iterator[Series]:
    for kind in _KINDS:
        for name in sorted(samples.series):
            matched = kind.pattern.fullmatch(name)
            values = _as_floats(samples.series[name][1]) * kind.scale
            if not matched or not len(values) or values.max() <= kind.least:
                continue
            yield Series(
                name=name,
                title=kind.title.format(*matched.groups()),
                unit=kind.unit,
                mean=float(values.mean()),
                low=float(values.min()),
                high=float(values.max()),
                points=_mean_points(samples.series[name][0], values, span, n_points),
                ceiling=kind.ceiling or _ceiling(samples, name, kind.scale),
            )


def _ceiling(samples: Samples, name: str, scale: float) -> float | None:
    """Return the size of a memory, where it was sampled along with its use."""
    total_name = re.sub(r"(_used|available)$", lambda suffix: _TOTAL_SUFFIXES[suffix[0]], name)
    total_series = samples.series.get(total_name) if total_name != name else None
    return max(total_series[1]) * scale if total_series and total_series[1] else None


_TOTAL_SUFFIXES: Final = {"_used": "_total", "available": "total"}


def _as_floats(values: Iterable[float]) -> Float:
    return np.array(tuple(values), np.float64)


def _mean_points(
    times: Int64, values: Float, span: tuple[int, int], n_points: int
) -> tuple[float | None, ...]:
    """Return the mean of each stretch of time, ``None`` where nothing was sampled."""
    width = max(1, span[1] - span[0])
    bins = np.clip((times - span[0]) * n_points // width, 0, n_points - 1)
    sums, counts = np.zeros(n_points), np.zeros(n_points)
    np.add.at(sums, bins, values)
    np.add.at(counts, bins, 1)
    return tuple(
        float(total / count) if count else None for total, count in zip(sums, counts, strict=True)
    )


def used_gpus(samples: Samples) -> tuple[str, ...]:
    """Return the GPUs that the run used: those that were sampled at least half as often as any."""
    counts: dict[str, int] = {}
    for name, (times, _) in samples.series.items():
        matched = re.match(r"gpu\d+(?=\.)", name)
        if matched:
            counts[matched[0]] = max(counts.get(matched[0], 0), len(times))
    max_count = max(counts.values(), default=0)
    return tuple(sorted(name for name, count in counts.items() if 2 * count >= max_count))


def gpu_utilisation(samples: Samples) -> float | None:
    """Return the share of the sampled time in which a kernel ran, as ``nvidia-smi`` counts it."""
    series = [samples.series.get(f"{gpu}.sm") for gpu in used_gpus(samples)]
    means = [
        _time_mean(times, _as_floats(values))
        for times, values in filter(None, series)
        if len(values)
    ]
    return sum(means) / len(means) / _PER_CENT if means else None


def _time_mean(times: Int64, values: Float) -> float:
    """Return the mean over time: the line through the samples."""
    lengths = np.diff(times)
    midpoints = (values[1:] + values[:-1]) / 2
    return (
        float((midpoints * lengths).sum() / lengths.sum())
        if lengths.sum()
        else float(values.mean())
    )


def measure_contention(
    samples: Samples, limits: ProcessorLimits, steps: tuple[int, int] | None = None
) -> CpuContention | None:
    """Return what others took of the processors of a run; ``None`` where that was not sampled.

    Only samples within ``steps`` count, if there are any: what others did while the training was
    set up costs no step anything. For a run that is bound to some processors, what others took of
    these counts; where that was not sampled, what they took beyond all the other ones.
    """
    cores, bound = _contended_cores(samples, limits, steps)
    if cores is None:
        return None
    stolen = _mean_cores(samples, "cpu.stolen", steps)
    usable = limits.usable
    if bound is None or usable is None:
        return CpuContention(cores, stolen, usable)
    share = usable / max(bound, limits.machine or bound)  # the hypervisor takes from all alike
    return CpuContention(
        limits.contended_cores(cores, bound),
        None if stolen is None else stolen * share,
        min(usable, bound),
    )


def _contended_cores(
    samples: Samples, limits: ProcessorLimits, steps: tuple[int, int] | None
) -> tuple[float | None, int | None]:
    """Return what others took of the processors that a run is bound to, and their number."""
    cores = _mean_cores(samples, "cpu.contending", steps)
    allowed = _mean_cores(samples, "cpu.allowed", steps)
    if cores is not None and allowed is not None:
        return cores, round(allowed)
    foreign, bound = _mean_cores(samples, "cpu.foreign", steps), limits.bound or limits.machine
    if foreign is None or bound is None or limits.machine is None:
        return foreign, bound
    return max(0.0, foreign - (limits.machine - bound)), bound


def is_negligible(contention: CpuContention | None) -> bool:
    """Return whether others took so little of the processors that steps are hardly affected."""
    return (
        contention is None
        or not contention.processors
        or contention.cores < _MIN_CONTENDED_SHARE * contention.processors
    )


def samples_within(times: Int64, span: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return which samples belong to a span: each is the mean since the one before it.

    One that began before the span counts only if no other does.
    """
    start_ns, end_ns = span
    since = np.append(times[:1], times[:-1])  # the start of the first one is not known
    is_inside = (times >= start_ns) & (times <= end_ns)
    is_mostly_inside = is_inside & (
        times - np.maximum(since, start_ns) >= _MIN_INSIDE_SHARE * np.maximum(times - since, 1)
    )
    return is_mostly_inside if is_mostly_inside.any() else is_inside


def _mean_cores(samples: Samples, name: str, steps: tuple[int, int] | None) -> float | None:
    times, percents = samples.series.get(name, (np.empty(0, np.int64), ()))
    values = _as_floats(percents)
    is_inside = samples_within(times, steps) if steps is not None else np.zeros(len(times), bool)
    if is_inside.any():
        return float(values[is_inside].mean()) / _PER_CENT
    return _time_mean(times, values) / _PER_CENT if len(values) else None


def energy(samples: Samples) -> Energy | None:
    """Return the energy of the used GPUs while sampled: by their counters, else their power."""
    draws: list[tuple[float, float | None, str]] = []
    for gpu in used_gpus(samples):
        draw = _counter_energy(samples.series, gpu) or _power_energy(samples.series, gpu)
        if draw is not None:
            draws.append(draw)
    if not draws:
        return None
    idle_joules = [draw[1] for draw in draws if draw[1] is not None]
    return Energy(
        joules=sum(draw[0] for draw in draws),
        idle_joules=sum(idle_joules) if len(idle_joules) == len(draws) else None,
        source=draws[0][2],
    )


SampleColumns = Mapping[str, tuple[Int64, tuple[float, ...]]]


def _counter_energy(series: SampleColumns, gpu: str) -> tuple[float, float | None, str] | None:
    times, values = series.get(f"{gpu}.energy", (np.empty(0, np.int64), ()))
    if len(values) < 2:  # noqa: PLR2004 - a counter's difference
        return None
    return (
        values[-1] - values[0],
        _idle_joules(series, gpu, times, np.diff(values)),
        "energy counter",
    )


def _power_energy(series: SampleColumns, gpu: str) -> tuple[float, float | None, str] | None:
    times, values = series.get(f"{gpu}.power", (np.empty(0, np.int64), ()))
    if len(values) < 2:  # noqa: PLR2004 - nothing lies between
        return None
    watts = _as_floats(values)
    joules = (watts[1:] + watts[:-1]) / 2 * np.diff(times) * _S_PER_NS
    return float(joules.sum()), _idle_joules(series, gpu, times, joules), "sampled power"


def _idle_joules(series: SampleColumns, gpu: str, times: Int64, joules: Float) -> float | None:
    """Return the energy drawn while no kernel ran, by the utilisation."""
    busy_series = series.get(f"{gpu}.sm")
    if busy_series is None or not len(busy_series[0]):
        return None
    busy_share = (np.interp(times, busy_series[0], _as_floats(busy_series[1])) / _PER_CENT).clip(
        0, 1
    )
    return float((joules * (1 - (busy_share[1:] + busy_share[:-1]) / 2)).sum())


def cost(price: float, devices: int, wall_ns: int, usage: tuple[float, str] | None) -> RunCost:
    """Return what some devices cost, given the share of the time in which they worked."""
    total = price * devices * wall_ns / _NS_PER_HOUR
    idle_share = None if usage is None else 1 - usage[0]
    return RunCost(
        price=price,
        devices=devices,
        whole=total,
        idle=None if idle_share is None else total * idle_share,
        idle_share=idle_share,
        source=None if usage is None else usage[1],
    )
