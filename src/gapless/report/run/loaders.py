"""The report on each loader of a run: its line, its settings, waits, workers, stages."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.model.run import LoaderUse, RecordedRun, WorkerUse
from gapless.report.text.numbers import count, percent, size, span
from gapless.report.text.text import clean, cut_middle

IN_TRAINING: Final = "in the training process itself: num_workers=0"
_SHOWN_SETTINGS: Final = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
)
_MAX_LOADERS: Final = 4  # loaders of a page
_MAX_SETTING_CELLS: Final = 24  # cells of a setting
_MIN_SHARE: Final = 0.02  # of the time of steps: for shorter waits, what delayed batches is omitted
_MIN_WAIT_SHARE: Final = 0.2  # of the waits


def loader_lines(recorded: RecordedRun) -> Iterator[str]:
    """Describe the loaders, the one waited for longest first."""
    used_loaders = [loader for loader in recorded.loaders if loader.waits or loader.workers]
    used_loaders = used_loaders or list(recorded.loaders)
    for loader in used_loaders[:_MAX_LOADERS]:
        yield loader_title(loader) + (
            f", created again {_count(loader.made - 1, 'time')}" if loader.made > 1 else ""
        )
        yield from (f"  {line}" for line in _lines(loader))
    if len(used_loaders) > _MAX_LOADERS:
        yield f"{len(used_loaders) - _MAX_LOADERS} more loaders, which were waited for less"
    if not recorded.loaders and recorded.timeline.processes:
        yield "no DataLoader was used: what feeds the training is part of the step"


def loader_title(loader: LoaderUse) -> str:
    """Describe a loader by its line and its settings."""
    name = clean(str(loader.settings.get("class") or "DataLoader"))
    settings = [
        f"{key}={cut_middle(clean(str(loader.settings[key])), _MAX_SETTING_CELLS)}"
        for key in _SHOWN_SETTINGS
        if loader.settings.get(key) is not None
    ]
    file = (loader.file or "").replace("\\", "/").rpartition("/")[2]
    line_ref = f"{clean(file)}:{loader.line} " if loader.file else ""
    return f"{line_ref}{name}({', '.join(settings)})"


def loads_in_training(loader: LoaderUse) -> bool:
    """Return whether the training process makes the batches itself."""
    n_workers = loader.settings.get("num_workers")
    return (
        n_workers == 0
        if isinstance(n_workers, int)
        else bool(loader.workers and not loader.workers.processes)
    )


def _share_text(use: LoaderUse) -> str:
    """Return what waits are of the steps, and what of them evaluations are charged with."""
    texts = [] if use.share is None else [f"{percent(use.share)} of the time of steps"]
    if use.evaluation_ns:
        texts.append(f"{span(use.evaluation_ns)} of it in evaluations")
    return f" ({'; '.join(texts)})" if texts else ""


def _lines(use: LoaderUse) -> Iterator[str]:
    if not use.waits:
        yield "no batch of it was recorded on the training thread"
    else:
        waited = f"{span(use.wait_ns)}{_share_text(use)}"
        yield f"{_count(use.waits, 'batch')} waited for {waited}: {_waits(use)}"
        stage_text = _by_size({leaf.removeprefix("data."): ns for leaf, ns in use.stages.items()})
        yield f"waiting for: {stage_text}{f' ({IN_TRAINING})' if loads_in_training(use) else ''}"
        yield from _facets(use)
    if use.iterations:
        mean = span(use.restart_ns / use.iterations)
        first_batch = (
            "" if use.first_ns is None else f", and its first batch took {span(use.first_ns)}"
        )
        yield (
            f"{_count(use.iterations, 'iteration')}: to begin and end one took {mean}{first_batch}"
        )
    if use.workers is not None:
        yield from _workers(use.workers)


def _facets(loader: LoaderUse) -> Iterator[str]:
    """Describe what delayed batches, where it is a large part of considerable waits."""
    if not loader.known_ns or (loader.share or 0.0) < _MIN_SHARE:
        return
    for ns, words in (
        (
            loader.hol_ns,
            "later batches lay ready behind a slower one: they are handed over in order",
        ),
        (loader.queueing_ns, "the worker of the batch was still at another one"),
    ):
        if ns is not None and ns >= _MIN_WAIT_SHARE * loader.known_ns:
            yield f"in {percent(ns / loader.known_ns)} of these waits, {words}"


def _waits(loader: LoaderUse) -> str:
    parts = [
        f"{word} {span(ns)}"
        for word, ns in (
            ("mean", loader.mean_ns),
            ("p95", loader.p95_ns),
            ("longest", loader.longest_ns),
        )
        if ns is not None
    ]
    return " · ".join(parts)


def _by_size(stages_ns: Mapping[str, int]) -> str:
    order = sorted(stages_ns, key=lambda name: -stages_ns[name])
    return " · ".join(f"{_NAMES.get(name, name)} {span(stages_ns[name])}" for name in order)


_NAMES: Final = {"main": "loading, stage not recorded", "unstaged": "stage not recorded"}


def _workers(use: WorkerUse) -> Iterator[str]:
    yield " · ".join((_maker_text(use), *_shares(use)))
    costs = [
        f"{text} {words}"
        for text, words in (
            (_time(use.cpu_per_sample_ns), "CPU"),
            (_bytes(use.bytes_per_sample), "read"),
            (_bytes(use.from_disk_per_sample), "from disk"),
        )
        if text is not None
    ]
    if costs:
        yield f"a sample: {' · '.join(costs)}"
    if use.stages:
        parts = (
            f"{stage.name} {span(stage.wall_ns)} ({percent(stage.share)})" for stage in use.stages
        )
        basis = (
            "" if use.staged == use.fetches else f" (in {use.staged:,} of {use.fetches:,} fetches)"
        )
        yield f"its stages: {' · '.join(parts)}{basis}"


def _maker_text(use: WorkerUse) -> str:
    median = "" if use.fetch_median_ns is None else f", median {span(use.fetch_median_ns)}"
    fetch = f"{_count(use.fetches, 'fetch')} looked at{median}"
    if not use.processes:
        return fetch
    n_workers = use.slots or use.processes
    workers = _count(n_workers, "worker")
    if use.processes > n_workers:
        workers += f" at a time ({use.processes:,} processes, restarted for epochs)"
    return f"{workers}: {fetch}"


def _shares(use: WorkerUse) -> Iterator[str]:
    if use.busy is not None:
        yield f"busy {percent(use.busy)}, idle {percent(max(0.0, 1 - use.busy))}"
    share_texts = [
        f"{words} {percent(share)}"
        for words, share in (
            ("on a CPU", use.on_cpu),
            ("waiting for a CPU", use.run_queue),
            ("blocked", use.blocked),
        )
        if share is not None
    ]
    if share_texts:
        yield ", ".join(share_texts)


def _time(ns: float | None) -> str | None:
    return None if ns is None else span(ns)


def _bytes(number: float | None) -> str | None:
    return None if number is None else size(number)


def _count(number: int, noun: str) -> str:
    """Format a count with its noun."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count(number)} {noun if number == 1 else plural}"
