"""What a report says of synchronising calls, device memory and files: a line each."""

from collections.abc import Iterator, Sequence
from typing import Final

from gapless.model.footprint import AllocatorUse, FileUse, Footprint, SyncUse
from gapless.report.numbers import count, percent, size, span
from gapless.report.run_words import from_here
from gapless.report.text import clean

_SHOWN: Final = 3  # lines, folders, files


def footprint_sections(found: Footprint | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Give the parts of the report, with their titles; empty ones are left out when printed."""
    if found is None:
        return
    yield "syncs", list(_syncs(found.syncs))
    yield "memory", list(_memory(found.allocator))
    yield "files", [] if found.files is None else list(_files(found.files))


def _syncs(every: Sequence[SyncUse]) -> Iterator[str]:
    if not every:
        return
    calls = sum(one.count for one in every)
    total = sum(one.total_ns for one in every)
    per_step, ns = sum(one.per_step or 0 for one in every), sum(one.step_ns or 0 for one in every)
    often = f", {_often(per_step, ns)}" if per_step else ""
    lines = " · ".join(f"{_place(one)} {_use(one)}" for one in every[:_SHOWN])
    more = f" · {len(every) - _SHOWN} more lines" if len(every) > _SHOWN else ""
    yield (
        f"{count(calls)} synchronising calls that Python can see took {span(total)}{often}: "
        f"{lines}{more} (item() and its like: see the windows)"
    )


def _use(one: SyncUse) -> str:
    if one.per_step and one.step_ns is not None:
        return _often(one.per_step, one.step_ns)
    return f"{count(one.count)} in all, {span(one.total_ns)}"


def _often(per_step: float, ns: float) -> str:
    return f"{per_step:.2g} a step, {span(ns)}"


def _place(one: SyncUse) -> str:
    if one.file is None:
        return "no line of the training's"
    name = one.file.replace("\\", "/").rpartition("/")[2]
    return clean(f"{name}:{one.line} {one.function or ''}".strip())


def _memory(every: Sequence[AllocatorUse]) -> Iterator[str]:
    if not every:
        return
    one = max(every, key=lambda use: (use.reserved_peak or 0, use.allocated_peak or 0))
    parts = [
        f"{words} {size(number)}"
        for words, number in (
            ("allocated at most", one.allocated_peak),
            ("reserved at most", one.reserved_peak),
        )
        if number is not None
    ]
    parts += [
        f"{count(number)} {words}"
        for words, number in (
            ("retries", one.retries),
            ("times out of memory", one.ooms or None),
            ("allocations by the device", one.device_allocs),
            ("frees", one.device_frees),
        )
        if number is not None
    ]
    whose = f"rank {one.rank}, GPU {one.device}" if one.rank is not None else f"GPU {one.device}"
    most = f", the most of {len(every)}" if len(every) > 1 else ""
    yield f"{whose}{most}: {' · '.join(parts)}"


def _files(found: FileUse) -> Iterator[str]:
    if found.opened is not None and found.files is not None:
        least = "at least " if found.more else ""
        folders = " · ".join(
            f"{from_here(one.path)} {percent(one.opened / found.opened)}"
            for one in found.folders[:_SHOWN]
        )
        yield (
            f"fetches that were looked at opened {least}{count(found.files)} files "
            f"({count(found.opened + found.more)} times){folders and f', most in {folders}'}"
        )
    if found.written:
        shown = " · ".join(map(from_here, found.written[:_SHOWN]))
        more = len(found.written) - _SHOWN
        rest = f" and {count(more)} more" if more > 0 else ""
        yield f"written: {shown}{rest}"
