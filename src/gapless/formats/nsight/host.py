"""What threads of the host did: calls of CUDA, NVTX ranges, calls of the operating system."""

import re
from typing import Any, Final

import numpy as np

from gapless.formats.nsight.activities import (
    Names,
    name_rows,
    process_of,
    unique_correlation,
)
from gapless.formats.nsight.database import Database
from gapless.formats.parts import EventBlock, TraceParts, take_rows
from gapless.formats.roles import is_input, is_step, operator_name
from gapless.model import category as c
from gapless.model.trace import Int64

_VERSION: Final = re.compile(r"(?:_ptsz|_ptds)?(?:_v\d+)?$")  # cudaLaunchKernel_ptsz_v7000
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75  # of ENUM_NSYS_EVENT_TYPE
_TID_MASK: Final = 0xFFFFFF
# Domains in which libraries mark their own calls: operators, and never the steps of a training.
_LIBRARY: Final = re.compile(
    r"(?i)(nccl|rccl|mpi|ucx|nvshmem|cu[a-z]{2,12}|cccl|thrust|dali|tensorrt|openacc|libkvikio"
    r"|libcudf|rmm|nvimagecodec|nvjpeg)(\b.*)?"
)


def add_host(database: Database, names: Names, parts: TraceParts) -> None:
    """Add what threads did."""
    _add_calls(database, names, parts)
    _add_ranges(database, names, parts)
    _add_thread_rows(database, names, parts, "OSRT_API", c.OS_CALL)
    _add_thread_rows(database, names, parts, "PROFILER_OVERHEAD", c.OVERHEAD)


def _add_calls(database: Database, names: Names, parts: TraceParts) -> None:
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    if not database.has(table, "start", "end"):
        return
    wanted = ("start", "end", "globalTid", "correlationId", "nameId")
    start, end, thread, correlation, label = database.integers(table, wanted)

    def call_label(number: int) -> str:
        return _VERSION.sub("", names.label(number))

    name = name_rows(parts, [label], call_label)
    block = EventBlock(
        category=c.RUNTIME,
        start=start,
        end=end,
        name=name,
        track=thread_tracks(parts, thread),
        correlation=unique_correlation(correlation, process_of(thread), names),
    )
    labels = list(parts.names)
    is_runtime = np.array([text.startswith("cuda") for text in labels], bool)[name]
    for kind, rows in ((c.RUNTIME, is_runtime), (c.DRIVER, ~is_runtime)):
        chosen = take_rows(block, np.flatnonzero(rows))
        parts.add(
            EventBlock(
                kind, chosen.start, chosen.end, chosen.name, chosen.track, chosen.correlation
            )
        )


def _add_ranges(database: Database, names: Names, parts: TraceParts) -> None:
    table = "NVTX_EVENTS"
    if not database.has(table, "start", "end"):
        return
    wanted = ("start", "end", "eventType", "textId", "globalTid", "domainId")
    start, end, kind, label, thread, domain = database.integers(table, wanted)
    texts = [row[0] for row in database.texts(table, ("text",))]
    count = min(len(start), len(texts))  # of a damaged table one may have been read further
    start, end, kind, thread = start[:count], end[:count], kind[:count], thread[:count]
    domains = _domain_names(kind, label, domain, texts, names)
    kinds: dict[tuple[Any, int, int], tuple[int, int]] = {}
    rows = zip(texts, label[:count].tolist(), domain[:count].tolist(), strict=False)
    named = np.array(
        [kinds.get(key) or _remember_range(key, kinds, domains, names, parts) for key in rows],
        np.int64,
    ).reshape(-1, 2)
    is_range = np.isin(kind, (_PUSH_POP, _START_END))
    has_end = end >= 0
    n_open = int(np.count_nonzero(is_range & ~has_end))
    if n_open:
        parts.dropped["range without an end"] += n_open
    tracks = thread_tracks(parts, thread)
    for category in (c.USER_ANNOTATION, c.CPU_OP):
        chosen = np.flatnonzero(is_range & has_end & (named[:, 1] == category))
        parts.add(
            EventBlock(category, start[chosen], end[chosen], named[chosen, 0], tracks[chosen])
        )


def _domain_names(
    kind: Int64, label: Int64, domain: Int64, texts: list[Any], names: Names
) -> dict[int, str]:
    """Return the names of domains: the events that made them bear these."""
    domains: dict[int, str] = {}
    for row in np.flatnonzero(kind == _DOMAIN).tolist():
        if row < len(texts):
            domains[int(domain[row])] = _range_text(texts[row], int(label[row]), names)
    return domains


def _range_text(text: object, label: int, names: Names) -> str:
    if isinstance(text, str) and text:
        return text
    return names.strings.get(label, "") if label >= 0 else ""


def _remember_range(
    key: tuple[Any, int, int],
    kinds: dict[tuple[Any, int, int], tuple[int, int]],
    domains: dict[int, str],
    names: Names,
    parts: TraceParts,
) -> tuple[int, int]:
    """Return name and category of a range, and note what its name means."""
    text, label, domain = key
    name = _range_text(text, label, names) or "a range without a name"
    operator = operator_name(name)
    if operator is not None or _LIBRARY.fullmatch(domains.get(domain, "")):
        entry = parts.name_id(operator or name), c.CPU_OP
    else:
        entry = parts.name_id(name), c.USER_ANNOTATION
        if is_step(name):
            parts.step_names.add(name)
        elif is_input(name):
            parts.input_names.add(name)
    kinds[key] = entry
    return entry


def _add_thread_rows(
    database: Database, names: Names, parts: TraceParts, table: str, category: int
) -> None:
    """Add a table in which each row is what a thread was in, by name."""
    if not database.has(table, "start", "end"):
        return
    start, end, thread, label = database.integers(table, ("start", "end", "globalTid", "nameId"))
    name = name_rows(parts, [label], names.label)
    parts.add(EventBlock(category, start, end, name, thread_tracks(parts, thread)))


def thread_tracks(parts: TraceParts, serialized: Int64) -> Int64:
    """Return the track of each serialized thread id."""
    if not len(serialized):
        return np.zeros(0, np.int64)
    distinct, inverse = np.unique(serialized, return_inverse=True)
    processes = process_of(distinct).tolist()
    numbers = [
        parts.track_id(process, number & _TID_MASK if number >= 0 else -1)
        for process, number in zip(processes, distinct.tolist(), strict=True)
    ]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]
