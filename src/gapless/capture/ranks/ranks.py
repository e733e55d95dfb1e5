"""Many files at a time: a process each, as many as there are cores, in three phases.

Collectives need all ranks before any of them can be partitioned: they are joined by process group.
A file's columns are dropped as soon as it is in the cache, and again as soon as it is summarised,
and its collectives never come here, so memory does not grow with what the ranks did.
"""

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.summary import CaptureSummary, UnreadableFile
from gapless.capture.ranks.tasks import Answer, Ask, Head, Join, Task
from gapless.errors import NotATraceError, NotFoundError, mask_secrets
from gapless.formats.pool import crew
from gapless.formats.processes import count_processors
from gapless.model.options import Options, Progress

_WORKER_CODE: Final = "from gapless.capture.ranks.worker import main; main()"
_CACHE_SIZE: Final = "1000T"  # a study's own folder is not limited


class WindowPosition(Struct, frozen=True):
    """Where a window stands in its run: the windows of other ranks that it belongs with."""

    group: int  # the same number: windows of the same steps
    first_step: int


WindowPositions = Mapping[str, WindowPosition]  # by path


def summarise_files(
    paths: Sequence[str],
    options: Options,
    report_progress: Progress,
    positions: WindowPositions | None = None,
) -> tuple[list[CaptureSummary], list[UnreadableFile]]:
    """Summarise many files; those that cannot be read are returned with the reason.

    ``positions`` are those of the windows of a recorded run.
    Raises ``NotATraceError`` if that is all of them, ``NotFoundError`` for a rank that none of
    them is.
    """
    unreadable: list[UnreadableFile] = []
    positions = positions or {}
    with _open_crew(len(paths), options) as ask:
        steps = {path: position.first_step for path, position in positions.items()}
        tasks = [
            Task(path, first_step=steps.get(path), keeps=(f"head{index}",))
            for index, path in enumerate(paths)
        ]
        heads: dict[str, Head] = {}
        names: dict[str, str] = {}
        for task, answer in _keep_readable(ask, tasks, report_progress, "reading", unreadable):
            if answer.head:
                heads[task.path], (names[task.path],) = answer.head, task.keeps
        _require_readable(heads, unreadable)
        selected_paths = _select_paths(heads, options)
        joins = plan_joins(heads, names, positions)
        needs: dict[str, list[str]] = defaultdict(list)
        word = "joining"
        for task, _ in _keep_readable(ask, list(joins), report_progress, word, unreadable):
            for path, name in zip(joins[task], task.keeps, strict=True):
                needs[path].append(name)
        summary_tasks = [
            Task(path, heads[path].key, options, needs=tuple(needs[path]))
            for path in selected_paths
        ]
        summaries = [
            answer.summary
            for _, answer in _keep_readable(
                ask, summary_tasks, report_progress, "accounting", unreadable
            )
            if answer.summary
        ]
    _require_readable(summaries, unreadable)
    return summaries, unreadable


def require_rank(options: Options, file_ranks: Iterable[int | None]) -> None:
    """Refuse a selection of ranks that no file is of. Raises ``NotFoundError``."""
    selection = options.ranks()
    known_ranks = sorted({rank for rank in file_ranks if rank is not None})
    if selection is None or any(rank in selection for rank in known_ranks):
        return
    available = (
        f"there are {', '.join(map(str, known_ranks))}" if known_ranks else "no file names its rank"
    )
    raise NotFoundError(f"there is no rank {options.rank}: {available}")


@contextmanager
def _open_crew(files: int, options: Options) -> Generator[Ask]:
    """Start a process for each core, with a folder of temporary files that is removed.

    It is the cache, too, where the user's is not to be used. Or connect to the cluster on which
    ranks are to be read.
    """
    if options.on is not None:
        from gapless.capture.ranks.ray_pool import ray_crew  # noqa: PLC0415  seldom used

        with ray_crew(options.on) as ask:
            yield ask
        return
    size = min(files, count_processors())
    with TemporaryDirectory(prefix="gapless-", ignore_cleanup_errors=True) as folder:
        environment = {"TMPDIR": folder}
        if not options.cache:
            environment |= {"GAPLESS_CACHE": folder, "GAPLESS_CACHE_SIZE": _CACHE_SIZE}
        with ask_processes(size, environment) as ask:
            yield ask


@contextmanager
def ask_processes(size: int, environment: dict[str, str]) -> Generator[Ask]:
    """Start processes and yield the function that has them answer tasks until the block ends."""
    with crew(_WORKER_CODE, size, environment) as ask:
        yield lambda tasks: map(_read_answer, ask([encode(task) for task in tasks]))


def _read_answer(data: bytes | int) -> Answer:
    """Return an answer, or what became of the process that was to give it (its exit code)."""
    if isinstance(data, bytes):
        return decode(data, Answer)
    reason = f"gapless made a mistake over it (code {data}): GAPLESS_DEBUG=1 shows which"
    if data < 0:
        reason = f"the process that read it was killed by signal {-data}: is there enough memory?"
    return Answer(refused=reason)


def _keep_readable(
    ask: Ask,
    tasks: Sequence[Task],
    report_progress: Progress,
    word: str,
    unreadable: list[UnreadableFile],
) -> Iterator[tuple[Task, Answer]]:
    """Yield tasks with their answers as they come; what became of the others is added to a list."""
    for count, (task, answer) in enumerate(zip(tasks, ask(tasks), strict=True), 1):
        report_progress(
            f"{word}: {count} of {len(tasks)} {'files' if task.join is None else 'groups'}"
        )
        if answer.refused is None:
            yield task, answer
        else:
            name = mask_secrets(task.path)
            unreadable.append(UnreadableFile(name, answer.refused.removeprefix(f"{name}: ")))


def _require_readable(readable: Iterable[object], unreadable: Sequence[UnreadableFile]) -> None:
    if not readable:
        first_file = unreadable[0]
        raise NotATraceError(
            f"none of {len(unreadable)} files can be read; {first_file.path}: {first_file.reason}"
        )


def _select_paths(heads: dict[str, Head], options: Options) -> list[str]:
    require_rank(options, (head.rank for head in heads.values()))
    selection = options.ranks()
    return [
        path
        for path, head in heads.items()
        if selection is None or (head.rank is not None and head.rank in selection)
    ]


def plan_joins(
    heads: Mapping[str, Head], names: Mapping[str, str], positions: WindowPositions
) -> dict[Task, tuple[str, ...]]:
    """Return the tasks that join process groups, and which files each tells who came last.

    ``names`` are those under which the collectives of the files were kept.
    """
    joins: dict[Task, tuple[str, ...]] = {}
    for paths in _group_paths(heads, positions):
        members: dict[tuple[str | None, str | None], dict[str, int]] = {}
        ranks = {
            path: index if (rank := heads[path].rank) is None else rank
            for index, path in enumerate(paths)
        }
        for path in paths:
            for group, count in heads[path].groups:
                members.setdefault(group, {})[path] = count
        first_meeting = 0
        for group, counts in members.items():
            group_ranks = tuple(ranks[path] for path in counts)
            task = Task(
                f"process group {group[0]} of {group[1]}",
                join=Join(group, group_ranks, len(paths), first_meeting),
                needs=tuple(names[path] for path in counts),
                keeps=tuple(f"join{len(joins)}.{index}" for index in range(len(counts))),
            )
            joins[task] = tuple(counts)
            first_meeting += max(counts.values())
    return joins


def _group_paths(heads: Mapping[str, Head], positions: WindowPositions) -> list[list[str]]:
    """Return the files whose collectives belong together.

    Windows of a run by their steps; other files by order: the first of each rank, and so on, since
    a folder may hold several captures of a rank. A file without a rank belongs to no other.
    """
    turns = Counter[int]()
    paths_by_group: dict[object, list[str]] = defaultdict(list)
    for path, head in sorted(heads.items(), key=lambda item: (item[1].origin_ns, item[0])):
        if path in positions:
            paths_by_group["window", positions[path].group].append(path)
        elif head.rank is None:
            paths_by_group[path].append(path)
        else:
            paths_by_group[turns[head.rank]].append(path)
            turns[head.rank] += 1
    return [*paths_by_group.values()]
