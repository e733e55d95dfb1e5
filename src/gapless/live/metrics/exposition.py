"""A moment in the text format of OpenMetrics 1.0; what is not known has no line.

Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from gapless.live.view import LiveView, LoaderView, PaceView, RankView, RunView
from gapless.model.account import Account
from gapless.model.version import version
from gapless.store.run.manifest import RUNNING

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NS: Final = 1e-9  # seconds
_PER_CENT: Final = 0.01
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_GPU: Final = re.compile(r"gpu(?P<gpu>\d+)\.(?P<figure>.+)")
_DISK: Final = re.compile(r"disk\.(?P<disk>.+)\.(?P<figure>read|busy)")

FAMILIES: Final = {  # what each says; those in "_info" and "_total" are of these types
    "gapless_build_info": "The version of gapless.",
    "gapless_run_info": "The run that is watched: its state, its machine.",
    "gapless_run_elapsed_seconds": "Since the command was started.",
    "gapless_record_age_seconds": "Since the last record was made.",
    "gapless_step_seconds": "A step, of the latest ones of all ranks: mean, median, p10, p90.",
    "gapless_samples_per_second": "Samples of the latest steps, of all ranks together.",
    "gapless_group_seconds": "Where a mean step goes: a group of the account, of the latest steps.",
    "gapless_leaf_seconds": "The same by cause; those of a group sum to it.",
    "gapless_steps_total": "Steps that a rank has made.",
    "gapless_rank_step_seconds": "The median of the latest steps of a rank.",
    "gapless_rank_since_step_seconds": "Since the last step of a rank ended.",
    "gapless_rank_data_wait_ratio": "Waiting for data, of the latest steps of a rank.",
    "gapless_loader_ready_batches": "Batches that are made, and not handed over.",
    "gapless_loader_capacity_batches": "Batches that may be under way.",
    "gapless_loader_late_ratio": "Of the latest batches those that were waited for over 1 ms.",
    "gapless_loader_workers": "Workers of a loader that are there.",
    "gapless_gpu_utilization_ratio": "Of the time, a kernel ran on the GPU.",
    "gapless_gpu_tensor_ratio": "Of the time, its tensor cores were active.",
    "gapless_gpu_memory_used_bytes": "Memory of the GPU that is in use, by anybody.",
    "gapless_gpu_memory_total_bytes": "Memory that it has.",
    "gapless_gpu_power_watts": "What it draws.",
    "gapless_gpu_temperature_celsius": "Its temperature.",
    "gapless_gpu_clock_hertz": "The clock of its multiprocessors.",
    "gapless_gpu_clock_held": "1 for each reason that holds its clock back.",
    "gapless_processors": "Processors of the machine.",
    "gapless_processors_busy": "Processors in use: by all, by the run, by others.",
    "gapless_memory_available_bytes": "Memory of the machine that is free to be used.",
    "gapless_memory_total_bytes": "Memory that it has.",
    "gapless_disk_read_bytes_per_second": "Bytes read from a disk.",
    "gapless_disk_busy_ratio": "Of the time, a disk was busy.",
}
_GPU_FIGURES: Final = {
    "sm": ("gapless_gpu_utilization_ratio", _PER_CENT),
    "gpm.tensor": ("gapless_gpu_tensor_ratio", _PER_CENT),
    "memory_used": ("gapless_gpu_memory_used_bytes", 1),
    "memory_total": ("gapless_gpu_memory_total_bytes", 1),
    "power": ("gapless_gpu_power_watts", 1),
    "temperature": ("gapless_gpu_temperature_celsius", 1),
    "clock_sm": ("gapless_gpu_clock_hertz", 1e6),
}
_DISK_FIGURES: Final = {
    "read": ("gapless_disk_read_bytes_per_second", 1),
    "busy": ("gapless_disk_busy_ratio", _PER_CENT),
}
_BUSY: Final = {"cpu.total": "all", "cpu.tree": "run", "cpu.foreign": "others"}
Labels = Mapping[str, object]


class Sample(Struct, frozen=True):
    """A figure with its labels; of those that are ``None`` no label is written."""

    name: str  # of FAMILIES
    value: float
    labels: Labels


def exposition(view: LiveView) -> str:
    """Return a moment as text, the samples of each family together."""
    by_family: dict[str, list[Sample]] = {}
    for sample in samples(view):
        by_family.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for family, text in FAMILIES.items():
        if family not in by_family:
            continue
        name, kind = _type_of(family)
        lines += [f"# TYPE {name} {kind}", f"# HELP {name} {text}"]
        lines += [_line(sample) for sample in by_family[family]]
    return "\n".join([*lines, "# EOF\n"])


def samples(view: LiveView) -> Iterator[Sample]:
    """Yield all that is known at a moment: of a run that is over, how it ended.

    What its last steps took, and the machine did then, is no figure of now.
    """
    yield Sample("gapless_build_info", 1, {"version": version()})
    if view.run is not None:
        yield from _run_samples(view.run, view.host)
    if view.run is not None and view.run.status != RUNNING:
        return
    yield from _gpu_samples(view)
    yield from _machine_samples(view)


def _type_of(family: str) -> tuple[str, str]:
    """Return the name and the type of a family: its samples have a suffix for some types."""
    for suffix, kind in (("_info", "info"), ("_total", "counter")):
        if family.endswith(suffix):
            return family.removesuffix(suffix), kind
    return family, "gauge"


def _line(sample: Sample) -> str:
    labels = ",".join(
        f'{name}="{str(value).translate(_ESCAPES)}"'
        for name, value in sample.labels.items()
        if value is not None
    )
    return f"{sample.name}{{{labels}}} {sample.value:.12g}"


def _known_figures(labels: Labels, **figures: float | None) -> Iterator[Sample]:
    """Yield the figures that are known."""
    for name, value in figures.items():
        if value is not None:
            yield Sample(f"gapless_{name}", value, labels)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns * _NS


def _run_samples(run: RunView, host: str) -> Iterator[Sample]:
    labels = {"run": run.id}
    yield Sample("gapless_run_info", 1, labels | {"status": run.status, "host": host})
    yield from _known_figures(
        labels,
        run_elapsed_seconds=_seconds(run.elapsed_ns),
        record_age_seconds=_seconds(run.behind_ns),
    )
    if run.status != RUNNING:
        return
    if run.recent is not None:
        yield from _pace_samples(run.recent, labels)
    if run.recent_account is not None:
        yield from _account_samples(run.recent_account, labels)
    for rank in run.ranks:
        yield from _rank_samples(rank, labels)
    for loader in run.loaders:
        yield from _loader_samples(loader, labels)


def _pace_samples(pace: PaceView, labels: Labels) -> Iterator[Sample]:
    lengths_ns = {
        "mean": pace.mean_ns,
        "median": pace.median_ns,
        "p10": pace.p10_ns,
        "p90": pace.p90_ns,
    }
    for figure, length_ns in lengths_ns.items():
        yield Sample("gapless_step_seconds", length_ns * _NS, {**labels, "figure": figure})
    yield from _known_figures(labels, samples_per_second=pace.samples_per_s)


def _account_samples(account: Account, labels: Labels) -> Iterator[Sample]:
    for group, leaf, ns in account.walk_step():
        family = "gapless_group_seconds" if leaf is None else "gapless_leaf_seconds"
        yield Sample(family, ns * _NS, {**labels, "group": group, "leaf": leaf})


def _rank_samples(rank: RankView, labels: Labels) -> Iterator[Sample]:
    yield from _known_figures(
        {**labels, "rank": rank.rank, "pid": rank.pid if rank.rank is None else None},
        steps_total=rank.steps,
        rank_step_seconds=_seconds(rank.median_ns),
        rank_since_step_seconds=_seconds(rank.since_step_ns),
        rank_data_wait_ratio=rank.wait_share,
    )


def _loader_samples(loader: LoaderView, labels: Labels) -> Iterator[Sample]:
    line_ref = None if loader.file is None else f"{loader.file}:{loader.line}"
    yield from _known_figures(
        {**labels, "rank": loader.rank, "loader": loader.id, "place": line_ref},
        loader_ready_batches=loader.ready,
        loader_capacity_batches=loader.capacity,
        loader_late_ratio=loader.late_share,
        loader_workers=len(loader.workers),
    )


def _gpu_samples(view: LiveView) -> Iterator[Sample]:
    for name, value in view.machine.items():
        matched = _GPU.fullmatch(name)
        if matched is not None and matched["figure"] in _GPU_FIGURES:
            family, scale = _GPU_FIGURES[matched["figure"]]
            gpu = matched["gpu"]
            labels = {"gpu": gpu, "model": view.gpu_names.get(f"gpu{gpu}")}
            yield Sample(family, value * scale, labels)
    for gpu_name, reasons in view.held.items():
        for reason in reasons:
            labels = {"gpu": gpu_name.removeprefix("gpu"), "reason": reason}
            yield Sample("gapless_gpu_clock_held", 1, labels)


def _machine_samples(view: LiveView) -> Iterator[Sample]:
    figures = view.machine
    yield from _known_figures(
        {},
        processors=view.processors,
        memory_available_bytes=figures.get("memory.available"),
        memory_total_bytes=figures.get("memory.total"),
    )
    for name, value in figures.items():
        if name in _BUSY:
            yield Sample("gapless_processors_busy", value * _PER_CENT, {"by": _BUSY[name]})
        matched = _DISK.fullmatch(name)
        if matched is not None:
            family, scale = _DISK_FIGURES[matched["figure"]]
            yield Sample(family, value * scale, {"disk": matched["disk"]})
