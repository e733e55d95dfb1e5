"""The lines about data: which batches are ready, and what each worker does now."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from rich.text import Text

from gapless.live.view import LoaderView, WorkerView
from gapless.report.text.console import Pen, bar
from gapless.report.text.numbers import duration, percent
from gapless.report.text.text import clean, cut_end
from gapless.screen.run_lines import DIM, LABEL_CELLS, label_lines

_MAX_WORKERS: Final = 8  # of all loaders together, that have a line each
_BAR_CELLS: Final = 12
_MIN_STAGE_SHARE: Final = 0.05


def loader_lines(loaders: Sequence[LoaderView], pen: Pen) -> Iterator[Text]:
    """Return the queue of each loader and its workers."""
    n_workers = sum(len(loader.workers) for loader in loaders)
    lines: list[Text] = []
    for loader in loaders:
        lines.append(_queue_line(loader, pen, has_ranks=len({item.rank for item in loaders}) > 1))
        if n_workers <= _MAX_WORKERS:
            lines += [_worker_line(worker, pen) for worker in loader.workers]
        elif loader.workers:
            lines.append(_summary_line(loader.workers, pen))
    yield from label_lines("data", lines)


def _queue_line(loader: LoaderView, pen: Pen, *, has_ranks: bool) -> Text:
    name = f"loader {loader.id}" if loader.file is None else PurePath(clean(loader.file)).name
    place = name if loader.file is None or loader.line is None else f"{name}:{loader.line}"
    line = Text(f"rank {loader.rank} · {place}" if has_ranks else place)
    if not loader.workers:
        is_between = bool(loader.num_workers)
        words = "its workers are not running now" if is_between else "loads in the training itself"
        line.append(f" · {words}")
        return line
    n_workers = len(loader.workers)
    line.append(f" · {n_workers} worker{'s' if n_workers > 1 else ''} · ")
    if loader.ready is None:
        line.append("how many batches are ready is not known now", DIM)
        return line
    of_text = "" if loader.capacity is None else f" of {loader.capacity}"
    line.append(f"{loader.ready}{of_text} batches ready ", "red" if loader.ready == 0 else "")
    if loader.capacity:
        share = min(1.0, loader.ready / loader.capacity)
        line.append(bar(share, _BAR_CELLS, pen.signs), "red" if loader.ready == 0 else "green")
    return line


def _worker_line(worker: WorkerView, pen: Pen) -> Text:
    text = f"worker {worker.worker} {worker.doing}"
    if worker.fetch_ns is not None:
        text += f" · {duration(worker.fetch_ns)} a batch{_stages(worker)}"
    return Text(cut_end(f"  {text}", pen.width - LABEL_CELLS))


def _stages(worker: WorkerView) -> str:
    ranked = sorted(worker.stages.items(), key=lambda item: -item[1])
    texts = [f"{stage} {percent(share)}" for stage, share in ranked if share >= _MIN_STAGE_SHARE]
    return f" ({', '.join(texts)})" if texts else ""


def _summary_line(workers: Sequence[WorkerView], pen: Pen) -> Text:
    doings = Counter(_without_figures(worker.doing) for worker in workers)
    parts = [f"{n_workers} {doing}" for doing, n_workers in doings.most_common()]
    fetches = [worker.fetch_ns for worker in workers if worker.fetch_ns is not None]
    if fetches:
        parts.append(
            f"{duration(sum(fetches) / len(fetches))} a batch, {duration(max(fetches))} at most"
        )
    return Text(cut_end("  workers: " + " · ".join(parts), pen.width - LABEL_CELLS))


def _without_figures(doing: str) -> str:
    """Return what a worker does without shares, by which no two are alike."""
    return " ".join(word for word in doing.split() if not word.isdigit()).replace(
        " % of the time", ""
    )
