"""The lines about the machine: GPUs, processors, memory, disks, network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from gapless.live.view import LiveView
from gapless.report.text.console import Pen, bar, spark
from gapless.report.text.numbers import rate, size
from gapless.report.text.text import clean, cut_end, pad
from gapless.report.text.wrap import fold
from gapless.screen.run_lines import DIM, LABEL_CELLS, Histories, label_lines

_MAX_DISKS: Final = 4
_MAX_NETWORKS: Final = 4
_GAUGE_CELLS: Final = 10
_SPARK_CELLS: Final = 30
_MIN_SPARK_CELLS: Final = 8
_EACH_LABEL: Final = "each "
_MIN_PERCENT: Final = 0.5  # of a processor: less is not mentioned
_MEGA: Final = 1_000_000
_FULL_BYTES: Final = 0.95  # of a memory: from there on it is shown as full
_GPU_STATE: Final = {
    "power": "{:.0f} W",
    "clock_sm": "{:.0f} MHz",
    "temperature": "{:.0f} °C",
    "memory_util": "memory busy {:.0f} %",  # of the time, as nvidia-smi dmon has it
}
Figures = Mapping[str, float]


def machine_lines(view: LiveView, pen: Pen, histories: Histories) -> Iterator[Text]:
    """Return the lines about the machine."""
    figures = view.machine
    gpus = sorted(
        {int(matched[1]) for name in figures if (matched := re.match(r"gpu(\d+)\.", name))}
    )
    for number in gpus:
        yield from label_lines(
            f"gpu{number}", list(_gpu_lines(view, f"gpu{number}", pen, histories))
        )
    yield from label_lines("cpu", list(_processor_lines(view, pen, histories)))
    yield from label_lines("memory", list(_memory_lines(figures, pen)))
    yield from label_lines("disk", list(_disk_lines(figures, pen)))
    yield from label_lines("network", list(_network_lines(figures, pen)))
    for note in view.notes:
        yield Text(cut_end(clean(f"not seen: {note}"), pen.width), DIM)


def _gpu_lines(view: LiveView, gpu: str, pen: Pen, histories: Histories) -> Iterator[Text]:
    figures = {
        name.removeprefix(f"{gpu}."): value
        for name, value in view.machine.items()
        if name.startswith(f"{gpu}.")
    }
    yield _gpu_use(figures, pen, histories.get(f"{gpu}.sm", ()))
    parts = [clean(view.gpu_names.get(gpu, ""))]
    parts += [form.format(figures[name]) for name, form in _GPU_STATE.items() if name in figures]
    if "pcie_rx" in figures and "pcie_tx" in figures:
        received, sent = figures["pcie_rx"], figures["pcie_tx"]
        parts.append(f"PCIe in {bytes_rate(received)}, out {bytes_rate(sent)}")
    if view.run is not None and figures.get("others"):
        parts.append(f"{figures['others']:.0f} other processes")
    limits = view.held.get(gpu, ())
    if limits:
        yield Text(f"its clock is held back by {', '.join(limits)}", "yellow")
    yield from fold(" · ".join(filter(None, parts)), pen.width - LABEL_CELLS, DIM)


def _gpu_use(figures: Figures, pen: Pen, points: Sequence[float | None]) -> Text:
    line, busy = Text(), figures.get("sm")
    if busy is not None:
        line.append(f"SM {busy:3.0f} % ")
        line.append(pad(bar(busy / 100, _GAUGE_CELLS, pen.signs), _GAUGE_CELLS), "green")
    used, total = figures.get("memory_used"), figures.get("memory_total")
    if used is not None and total:
        style = "red" if used > _FULL_BYTES * total else ""
        line.append(f"  memory {size(used)} of {size(total)}", style)
    if "gpm.tensor" in figures:
        line.append(f"  tensor cores {figures['gpm.tensor']:.0f} %")
    _append_history(line, points, pen)
    return line


def _append_history(line: Text, points: Sequence[float | None], pen: Pen) -> None:
    room = min(_SPARK_CELLS, pen.width - LABEL_CELLS - len(line) - 2)
    if len(points) > 1 and room >= _MIN_SPARK_CELLS:
        line.append(f"  {spark(points, 100.0, room, pen.signs)}", "green")


def _processor_lines(view: LiveView, pen: Pen, histories: Histories) -> Iterator[Text]:
    figures = view.machine
    total = figures.get("cpu.total")
    if total is None:
        return
    count = view.processors
    line = Text(f"{total / 100:.2f}{'' if count is None else f' of {count}'} processors ")
    if count:
        share = min(1.0, total / 100 / count)
        line.append(pad(bar(share, _GAUGE_CELLS, pen.signs), _GAUGE_CELLS), "cyan")
    parts = [
        f"{text} {figures[name] / 100:.2f}"
        for name, text in (
            ("cpu.tree", "the run"),
            ("cpu.foreign", "others"),
            ("cpu.stolen", "stolen"),
            ("cpu.unlisted", "processes that ended, or are hidden"),
        )
        if figures.get(name, 0.0) >= _MIN_PERCENT
    ]
    if figures.get("cpu.wait"):
        parts.append(f"idle for a disk {figures['cpu.wait'] / 100:.2f}")
    if figures.get("cpu.throttled"):
        parts.append(f"held back by its limit {figures['cpu.throttled']:.0f} % of the time")
    pressure = figures.get("pressure.cpu.some")
    if pressure is not None:
        parts.append(f"waited for {min(pressure, 100):.0f} % of the time")
    if count:
        points = [None if point is None else point / count for point in histories.get("cpu", ())]
        _append_history(line, points, pen)
    yield line
    if parts:
        yield Text(cut_end(" · ".join(parts), pen.width - LABEL_CELLS), DIM)
    yield from _core_lines(view.cores, pen)


def _core_lines(cores: Sequence[float], pen: Pen) -> Iterator[Text]:
    """Draw each processor: one of many that is busy all the time is a thread that all wait for."""
    room = pen.width - LABEL_CELLS - len(_EACH_LABEL)
    for start in range(0, len(cores), room):
        row_cores = cores[start : start + room]
        label = _EACH_LABEL if start == 0 else " " * len(_EACH_LABEL)
        yield Text.assemble(
            (label, DIM), (spark(row_cores, 1.0, len(row_cores), pen.signs), "cyan")
        )


def _memory_lines(figures: Figures, pen: Pen) -> Iterator[Text]:
    available, total = figures.get("memory.available"), figures.get("memory.total")
    if available is None or total is None:
        return
    parts = [f"{size(available)} of {size(total)} free"]
    used, limit = figures.get("memory.group_used"), figures.get("memory.group_limit")
    if used is not None and limit is not None:
        parts.append(f"{size(used)} of the group's {size(limit)} used")
    shared, shared_total = figures.get("memory.shared_used"), figures.get("memory.shared_total")
    if shared is not None and shared_total:
        parts.append(f"shared {size(shared)} of {size(shared_total)}")
    if figures.get("memory.swap_used"):
        parts.append(f"swap {size(figures['memory.swap_used'])}")
    yield from fold(" · ".join(parts), pen.width - LABEL_CELLS)


def _disk_lines(figures: Figures, pen: Pen) -> Iterator[Text]:
    names = _names(figures, r"disk\.(.+)\.read")
    names.sort(key=lambda name: -figures.get(f"disk.{name}.busy", 0.0))
    pressure = figures.get("pressure.io.some")
    for index, name in enumerate(names[:_MAX_DISKS]):
        text = (
            f"{clean(name)} read {bytes_rate(figures[f'disk.{name}.read'])}, "
            f"written {bytes_rate(figures.get(f'disk.{name}.written', 0.0))}, "
            f"busy {figures.get(f'disk.{name}.busy', 0.0):.0f} %"
        )
        if index == 0 and pressure is not None:
            text += f" · waited for {min(pressure, 100):.0f} % of the time"
        yield Text(cut_end(text, pen.width - LABEL_CELLS))


def _network_lines(figures: Figures, pen: Pen) -> Iterator[Text]:
    names = [name for name in _names(figures, r"network\.(.+)\.received") if name != "lo"]
    names.sort(key=lambda name: -figures[f"network.{name}.received"])
    for name in names[:_MAX_NETWORKS]:
        received, sent = (
            figures[f"network.{name}.received"],
            figures.get(f"network.{name}.sent", 0.0),
        )
        yield Text(
            cut_end(
                f"{clean(name)} in {bytes_rate(received)}, out {bytes_rate(sent)}",
                pen.width - LABEL_CELLS,
            )
        )


def bytes_rate(per_s: float) -> str:
    """Format bytes a second; those of an idle machine are small."""
    return rate(per_s) if per_s >= _MEGA else f"{per_s / 1e3:.0f} KB/s"


def _names(figures: Figures, pattern: str) -> list[str]:
    return [matched[1] for name in figures if (matched := re.fullmatch(pattern, name))]
