"""Many files at a time: a process each, as many as there are cores, in two phases.

Collectives need all ranks before any of them can be partitioned. A file's columns are dropped as
soon as it is in the cache, and again as soon as it is summarised, so memory does not grow with
the number of ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

from gapless.accounting import Arrivals, match
from gapless.errors import NotATraceError, NotFoundError
from gapless.formats.pool import processors
from gapless.study.crew import Ask, crew
from gapless.study.options import Options, Say
from gapless.study.part import Missing, Part
from gapless.study.tasks import Answer, Head, Task

_ENOUGH: Final = "1000T"  # a study's own folder is not limited


@dataclass(frozen=True)
class Place:
    """Where a window stands in its run: the windows of other ranks that it belongs with."""

    together: int  # the same number: windows of the same steps
    first_step: int


Places = Mapping[str, Place]  # by path


def many(
    paths: list[str], options: Options, tell: Say, places: Places | None = None
) -> tuple[list[Part], list[Missing]]:
    """Summarise many files; those that cannot be read are given with the reason.

    ``places`` are those of the windows of a recorded run.
    Raises ``NotATraceError`` if that is all of them, ``NotFoundError`` for a rank that none of
    them is.
    """
    missing: list[Missing] = []
    places = places or {}
    with _hands(len(paths), options) as ask:
        steps = {path: place.first_step for path, place in places.items()}
        tasks = [Task(path, first_step=steps.get(path)) for path in paths]
        first = _phase(ask, tasks, tell, "reading")
        heads = {path: answer.head for path, answer in _read(first, missing) if answer.head}
        _require_some(heads, missing)
        chosen = _chosen(heads, options)
        arrivals = _arrivals(heads, places)
        second = _phase(
            ask,
            [Task(path, heads[path].key, options, arrivals[path]) for path in chosen],
            tell,
            "accounting",
        )
        parts = [answer.part for _, answer in _read(second, missing) if answer.part]
    _require_some(parts, missing)
    return parts, missing


def require_rank(options: Options, have: Iterable[int | None]) -> None:
    """Refuse a selection of ranks that no file is of. Raises ``NotFoundError``."""
    chosen = options.ranks()
    known = sorted({rank for rank in have if rank is not None})
    if chosen is None or any(rank in chosen for rank in known):
        return
    there = f"there are {', '.join(map(str, known))}" if known else "no file names its rank"
    raise NotFoundError(f"there is no rank {options.rank}: {there}")


@contextmanager
def _hands(files: int, options: Options) -> Generator[Ask]:
    """Start a process for each core; without the user's cache, give them a folder that goes."""
    size = min(files, processors())
    if options.cache:
        with crew(size, {}) as ask:
            yield ask
        return
    with TemporaryDirectory(prefix="gapless-") as folder:
        place = {"GAPLESS_CACHE": folder, "GAPLESS_CACHE_SIZE": _ENOUGH}
        with crew(size, place) as ask:
            yield ask


def _phase(ask: Ask, tasks: Sequence[Task], tell: Say, word: str) -> Iterator[tuple[str, Answer]]:
    for at, (task, answer) in enumerate(zip(tasks, ask(tasks), strict=True), 1):
        tell(f"{word}: {at} of {len(tasks)} files")
        yield task.path, answer


def _read(
    answers: Iterable[tuple[str, Answer]], missing: list[Missing]
) -> Iterator[tuple[str, Answer]]:
    for path, answer in answers:
        if answer.refused is None:
            yield path, answer
        else:
            missing.append(Missing(path, answer.refused.removeprefix(f"{path}: ")))


def _require_some(found: Iterable[object], missing: Sequence[Missing]) -> None:
    if not found:
        first = missing[0]
        raise NotATraceError(
            f"none of {len(missing)} files can be read; {first.path}: {first.reason}"
        )


def _chosen(heads: dict[str, Head], options: Options) -> list[str]:
    require_rank(options, (head.rank for head in heads.values()))
    chosen = options.ranks()
    return [
        path
        for path, head in heads.items()
        if chosen is None or (head.rank is not None and head.rank in chosen)
    ]


def _arrivals(heads: dict[str, Head], places: Places) -> dict[str, Arrivals]:
    """Match collectives of files that belong together.

    Windows of a run by their steps; other files by order: the first of each rank, and so on, since
    a folder may hold several captures of a rank. A file without a rank belongs to no other.
    """
    turn = Counter[int]()
    together: dict[object, list[str]] = defaultdict(list)
    for path, head in sorted(heads.items(), key=lambda item: (item[1].origin_ns, item[0])):
        if path in places:
            together["window", places[path].together].append(path)
        elif head.rank is None:
            together[path].append(path)
        else:
            together[turn[head.rank]].append(path)
            turn[head.rank] += 1
    found: dict[str, Arrivals] = {}
    for mine in together.values():
        matched = match([heads[path].collectives for path in mine])
        found.update(zip(mine, matched, strict=True))
    return found
