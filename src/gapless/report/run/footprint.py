"""The report on synchronising calls, device memory and files: a line each."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.footprint import AllocatorUse, FileUse, Footprint, SyncUse
from gapless.report.run.sentences import relative_path
from gapless.report.text.numbers import count, percent, size, span
from gapless.report.text.text import clean

_MAX_SHOWN: Final = 3  # lines, folders, files


def footprint_sections(footprint: Footprint | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Return the parts of the report, with their titles; empty ones are left out when printed."""
    if footprint is None:
        return
    yield "syncs", list(_sync_lines(footprint.syncs))
    yield "memory", list(_memory_lines(footprint.allocator))
    yield "files", [] if footprint.files is None else list(_file_lines(footprint.files))


def _sync_lines(syncs: Sequence[SyncUse]) -> Iterator[str]:
    if not syncs:
        return
    calls = sum(sync.count for sync in syncs)
    total = sum(sync.total_ns for sync in syncs)
    per_step, ns = (
        sum(sync.per_step or 0 for sync in syncs),
        sum(sync.step_ns or 0 for sync in syncs),
    )
    frequency = f", {_frequency(per_step, ns)}" if per_step else ""
    lines = " · ".join(f"{_sync_ref(sync)} {_use(sync)}" for sync in syncs[:_MAX_SHOWN])
    more_lines = f" · {len(syncs) - _MAX_SHOWN} more lines" if len(syncs) > _MAX_SHOWN else ""
    yield (
        f"{count(calls)} synchronising calls that Python can see took {span(total)}{frequency}: "
        f"{lines}{more_lines} (item() and its like: see the windows)"
    )


def _use(sync: SyncUse) -> str:
    if sync.per_step and sync.step_ns is not None:
        return _frequency(sync.per_step, sync.step_ns)
    return f"{count(sync.count)} in all, {span(sync.total_ns)}"


def _frequency(per_step: float, ns: float) -> str:
    return f"{per_step:.2g} a step, {span(ns)}"


def _sync_ref(sync: SyncUse) -> str:
    if sync.file is None:
        return "no line of the training's"
    name = sync.file.replace("\\", "/").rpartition("/")[2]
    return clean(f"{name}:{sync.line} {sync.function or ''}".strip())


def _memory_lines(allocators: Sequence[AllocatorUse]) -> Iterator[str]:
    if not allocators:
        return
    largest = max(allocators, key=lambda use: (use.reserved_peak or 0, use.allocated_peak or 0))
    parts = [
        f"{words} {size(number)}"
        for words, number in (
            ("allocated at most", largest.allocated_peak),
            ("reserved at most", largest.reserved_peak),
        )
        if number is not None
    ]
    parts += [
        f"{count(number)} {words}"
        for words, number in (
            ("retries", largest.retries),
            ("times out of memory", largest.ooms or None),
            ("allocations by the device", largest.device_allocs),
            ("frees", largest.device_frees),
        )
        if number is not None
    ]
    owner = (
        f"rank {largest.rank}, GPU {largest.device}"
        if largest.rank is not None
        else f"GPU {largest.device}"
    )
    comparison = f", the most of {len(allocators)}" if len(allocators) > 1 else ""
    yield f"{owner}{comparison}: {' · '.join(parts)}"


def _file_lines(files: FileUse) -> Iterator[str]:
    if files.opened is not None and files.files is not None:
        bound = "at least " if files.more else ""
        folders = " · ".join(
            f"{relative_path(folder.path)} {percent(folder.opened / files.opened)}"
            for folder in files.folders[:_MAX_SHOWN]
        )
        yield (
            f"fetches that were looked at opened {bound}{count(files.files)} files "
            f"({count(files.opened + files.more)} times){folders and f', most in {folders}'}"
        )
    if files.written:
        paths = " · ".join(map(relative_path, files.written[:_MAX_SHOWN]))
        hidden = len(files.written) - _MAX_SHOWN
        suffix = f" and {count(hidden)} more" if hidden > 0 else ""
        yield f"written: {paths}{suffix}"
