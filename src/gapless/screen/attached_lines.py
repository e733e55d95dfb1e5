"""What ``gapless attach`` prints: a coarse account, and how coarse it is."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from gapless.live.outside.attached import Attached, GpuUse, ProcessUse, ThreadUse
from gapless.report.text.console import Pen, bar
from gapless.report.text.numbers import size
from gapless.report.text.text import clean, cut_end, pad
from gapless.report.text.wrap import fold
from gapless.screen.machine_lines import bytes_rate
from gapless.screen.run_lines import DIM, LABEL_CELLS, label_lines

_NAME_CELLS: Final = 26
_BAR_CELLS: Final = 24
_MAX_WORKERS: Final = 8  # that have a line each
_MIN_BYTES: Final = 1000.0  # a second: less is not mentioned
_STYLES: Final = ("green", "yellow", "red", "cyan")


def attached_lines(attached: Attached, pen: Pen) -> Iterator[Text]:
    """Return the page."""
    head = f" · process {attached.pid} · looked at for {attached.seconds:.1f} s, from outside"
    yield Text.assemble(("gapless attach", "bold"), head)
    yield Text(cut_end(clean(attached.main.command), pen.width), DIM)
    yield from label_lines("now", fold(attached.reading, pen.width - LABEL_CELLS, "bold"))
    yield from _thread_account(attached.main.thread, pen)
    process_text = _process_text(attached.main)
    yield from label_lines("process", fold(process_text, pen.width - LABEL_CELLS))
    if attached.threads:
        yield from label_lines("threads", fold(_threads_text(attached), pen.width - LABEL_CELLS))
    yield from label_lines("workers", list(_worker_lines(attached, pen)))
    for gpu in attached.gpus:
        yield from label_lines(gpu.name, fold(_gpu_text(gpu), pen.width - LABEL_CELLS))
    if attached.processors is not None:
        of_text = "" if attached.count is None else f" of {attached.count}"
        text = f"{attached.processors:.2f}{of_text} processors in use, by everybody"
        yield from label_lines("cpu", [Text(text)])
    lines = [Text(f"{line.share * 100:3.0f} %  {clean(line.place)}") for line in attached.lines]
    yield from label_lines("lines", lines)
    yield Text()
    for sentence in _coarseness(attached):
        yield from fold(sentence, pen.width, DIM)
    yield from label_lines("exact", [Text(clean(attached.exact), "bold")])


def _thread_account(thread: ThreadUse, pen: Pen) -> Iterator[Text]:
    yield Text("where the time of its main thread goes", "bold")
    rows = [("on a processor", thread.on_processor_ns)]
    if thread.ready_ns is not None:
        rows.append(("waiting for a processor", thread.ready_ns))
    rows += [("waiting for a disk", thread.disk_ns), ("waiting otherwise", thread.otherwise_ns)]
    for (name, ns), style in zip(rows, _STYLES, strict=False):
        share = thread.share(ns)
        line = Text(f"  {pad(name, _NAME_CELLS)}{share * 100:5.1f} %  ")
        line.append(bar(share, _BAR_CELLS, pen.signs), style)
        yield line
    waits = Counter({name: ns for name, ns in thread.waits.items() if ns})
    if waits:
        texts = [f"for {name} {thread.share(ns) * 100:.0f} %" for name, ns in waits.most_common(4)]
        yield Text(cut_end(f"     {' · '.join(texts)}", pen.width), DIM)


def _process_text(process: ProcessUse) -> str:
    parts = [] if process.processors is None else [f"{process.processors:.2f} processors"]
    parts += [f"{process.threads} thread{'s' * (process.threads != 1)}", size(process.memory)]
    for value, words in (
        (process.read_per_s, "read from disks"),
        (process.asked_per_s, "read in all"),
        (process.written_per_s, "written"),
    ):
        if value is not None and value >= _MIN_BYTES:
            parts.append(f"{bytes_rate(value)} {words}")
    return " · ".join(parts)


def _threads_text(attached: Attached) -> str:
    """Return how much each thread was on a processor; the main thread has no other name."""
    return " · ".join(
        f"{'main' if share.thread == attached.pid else clean(share.name)} {share.processors:.2f}"
        for share in attached.threads
    )


def _worker_lines(attached: Attached, pen: Pen) -> Iterator[Text]:
    workers = attached.workers
    if not workers:
        yield Text("none: it has no processes below it; if it loads data, it does so itself", DIM)
        return
    for worker in workers[:_MAX_WORKERS]:
        text = f"{worker.pid}: {_doing(worker.thread)} · {_process_text(worker)}"
        yield Text(cut_end(text, pen.width - LABEL_CELLS))
    if len(workers) > _MAX_WORKERS:
        yield Text(_mean_text(workers[_MAX_WORKERS:]), DIM)
    if attached.n_started > 0:
        yield Text(f"{attached.n_started} processes were started meanwhile", "yellow")


def _doing(thread: ThreadUse) -> str:
    parts = [f"works {thread.share(thread.on_processor_ns) * 100:.0f} %"]
    if thread.ready_ns is not None:
        parts.append(f"waits for a processor {thread.share(thread.ready_ns) * 100:.0f} %")
    parts.append(f"for a disk {thread.share(thread.disk_ns) * 100:.0f} %")
    parts.append(f"else {thread.share(thread.otherwise_ns) * 100:.0f} %")
    return ", ".join(parts)


def _mean_text(workers: Sequence[ProcessUse]) -> str:
    shares = [worker.thread.share(worker.thread.on_processor_ns) for worker in workers]
    return f"{len(workers)} more, which work {sum(shares) / len(shares) * 100:.0f} % of the time"


def _gpu_text(gpu: GpuUse) -> str:
    parts = [clean(gpu.model)]
    if gpu.busy is not None:
        parts.append(f"a kernel ran {gpu.busy * 100:.0f} % of the time")
    if gpu.memory_used is not None and gpu.memory_total:
        parts.append(f"memory {size(gpu.memory_used)} of {size(gpu.memory_total)}")
    parts += [] if gpu.power is None else [f"{gpu.power:.0f} W"]
    parts += [] if gpu.clock_sm is None else [f"{gpu.clock_sm:.0f} MHz"]
    if gpu.pcie_rx is not None and gpu.pcie_tx is not None:
        parts.append(f"PCIe in {bytes_rate(gpu.pcie_rx)}, out {bytes_rate(gpu.pcie_tx)}")
    parts += [f"held back by {', '.join(gpu.held)}"] if gpu.held else []
    return " · ".join(filter(None, parts))


def _coarseness(attached: Attached) -> Iterator[str]:
    thread = attached.main.thread
    clock = "exact: the kernel counts them" if thread.ready_ns is not None else "in ticks of 10 ms"
    error = 100 / math.sqrt(max(1, thread.looks))
    yield (
        f"Coarse: times on a processor are {clock}; what it waited for is by {thread.looks} looks "
        f"(± {error:.0f} points). Steps, batches and operators cannot be seen from outside: there "
        "is no step time here."
    )
    for note in attached.notes:
        yield f"not seen: {clean(note)}"
    yield "The exact account, from a run that gapless records:"
