"""What a report says of each loader of a run: its line, its settings, waits, workers, stages."""

from collections.abc import Iterator, Mapping
from typing import Final

from gapless.model.run import LoaderUse, Recorded, WorkerUse
from gapless.report.numbers import count, percent, size, span
from gapless.report.text import clean, shorten

AT_HOME: Final = "in the training process itself: num_workers=0"
_SHOWN: Final = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
_MOST: Final = 4  # loaders of a page
_WIDE: Final = 24  # cells of a setting
_NOTABLE: Final = 0.02  # of the time of steps: what stood in the way of shorter waits is not said
_MUCH: Final = 0.2  # of the waits


def loader_lines(recorded: Recorded) -> Iterator[str]:
    """Describe the loaders, the one waited for longest first."""
    used = [one for one in recorded.loaders if one.waits or one.workers]
    used = used or list(recorded.loaders)
    for one in used[:_MOST]:
        yield title(one) + (f", made anew {_many(one.made - 1, 'time')}" if one.made > 1 else "")
        yield from (f"  {line}" for line in _lines(one))
    if len(used) > _MOST:
        yield f"{len(used) - _MOST} more loaders, which were waited for less"
    if not recorded.loaders and recorded.timeline.processes:
        yield "no DataLoader was used: what feeds the training is part of the step"


def title(one: LoaderUse) -> str:
    """Name a loader by its line and its settings."""
    name = clean(str(one.settings.get("class") or "DataLoader"))
    told = [
        f"{key}={shorten(clean(str(one.settings[key])), _WIDE)}"
        for key in _SHOWN
        if one.settings.get(key) is not None
    ]
    file = (one.file or "").replace("\\", "/").rpartition("/")[2]
    place = f"{clean(file)}:{one.line} " if one.file else ""
    return f"{place}{name}({', '.join(told)})"


def at_home(one: LoaderUse) -> bool:
    """Tell whether the training process makes the batches itself."""
    told = one.settings.get("num_workers")
    return told == 0 if isinstance(told, int) else bool(one.workers and not one.workers.processes)


def _lines(one: LoaderUse) -> Iterator[str]:
    if not one.waits:
        yield "no batch of it was recorded on the training thread"
    else:
        share = f" ({percent(one.share)} of the time of steps)" if one.share is not None else ""
        yield f"{_many(one.waits, 'batch')} waited for {span(one.wait_ns)}{share}: {_waits(one)}"
        made = _by_size({leaf.removeprefix("data."): ns for leaf, ns in one.stages.items()})
        yield f"waiting for: {made}{f' ({AT_HOME})' if at_home(one) else ''}"
        yield from _facets(one)
    if one.iterations:
        each = span(one.restart_ns / one.iterations)
        first = "" if one.first_ns is None else f", and its first batch took {span(one.first_ns)}"
        yield (f"{_many(one.iterations, 'iteration')}: to begin and end one took {each}{first}")
    if one.workers is not None:
        yield from _workers(one.workers)


def _facets(one: LoaderUse) -> Iterator[str]:
    """Say what stood in the way of batches, where that is much of waits that are much."""
    if not one.known_ns or (one.share or 0.0) < _NOTABLE:
        return
    for ns, words in (
        (one.hol_ns, "later batches lay ready behind a slower one: they are handed over in order"),
        (one.queueing_ns, "the worker of the batch was still at another one"),
    ):
        if ns is not None and ns >= _MUCH * one.known_ns:
            yield f"in {percent(ns / one.known_ns)} of these waits, {words}"


def _waits(one: LoaderUse) -> str:
    parts = [
        f"{word} {span(ns)}"
        for word, ns in (("mean", one.mean_ns), ("p95", one.p95_ns), ("longest", one.longest_ns))
        if ns is not None
    ]
    return " · ".join(parts)


def _by_size(parts: Mapping[str, int]) -> str:
    order = sorted(parts, key=lambda name: -parts[name])
    return " · ".join(f"{_NAMES.get(name, name)} {span(parts[name])}" for name in order)


_NAMES: Final = {"main": "loading, stage not recorded", "unstaged": "stage not recorded"}


def _workers(use: WorkerUse) -> Iterator[str]:
    yield " · ".join((_who(use), *_shares(use)))
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
        parts = (f"{one.name} {span(one.wall_ns)} ({percent(one.share)})" for one in use.stages)
        part = (
            "" if use.staged == use.fetches else f" (in {use.staged:,} of {use.fetches:,} fetches)"
        )
        yield f"its stages: {' · '.join(parts)}{part}"


def _who(use: WorkerUse) -> str:
    median = "" if use.fetch_median_ns is None else f", median {span(use.fetch_median_ns)}"
    fetch = f"{_many(use.fetches, 'fetch')} looked at{median}"
    if not use.processes:
        return fetch
    many = use.slots or use.processes
    workers = _many(many, "worker")
    if use.processes > many:
        workers += f" at a time ({use.processes:,} processes, made anew for epochs)"
    return f"{workers}: {fetch}"


def _shares(use: WorkerUse) -> Iterator[str]:
    if use.busy is not None:
        yield f"busy {percent(use.busy)}, idle {percent(max(0.0, 1 - use.busy))}"
    told = [
        f"{words} {percent(share)}"
        for words, share in (
            ("on a CPU", use.on_cpu),
            ("waiting for a CPU", use.run_queue),
            ("blocked", use.blocked),
        )
        if share is not None
    ]
    if told:
        yield ", ".join(told)


def _time(ns: float | None) -> str | None:
    return None if ns is None else span(ns)


def _bytes(number: float | None) -> str | None:
    return None if number is None else size(number)


def _many(number: int, noun: str) -> str:
    """Count things in words."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count(number)} {noun if number == 1 else plural}"
