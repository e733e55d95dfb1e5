"""How 64, 256 and 1,024 ranks are read: time, memory of the driver, who is late, exact sums.

``python -m benchmarks.many_ranks --out benchmarks/results/many_ranks.json``. All ranks of a job are
made of the two real ones in ``tests/data``: of the rank that waits for the other, and, for the few
planted ranks, of the other, which comes last. Each rank has a clock of its own: up to a second off,
and up to 200 ppm fast or slow. Whoever of the planted ranks comes last in a collective is drawn.
Each job is read with an empty cache by a fresh process: with processes, and (``--ray``) by a Ray
cluster of this machine, where one worker is killed midway.
"""

import argparse
import gzip
import hashlib
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

import numpy as np
import psutil
from isal import igzip

from benchmarks.machine import machine, write_result
from benchmarks.make_big_trace import (
    grow_trace,
    read_text,
    repeated_pattern,
    shift_ranges,
    split_events,
)
from gapless.capture.ranks.codec import encode
from gapless.study import Options, open_study

DATA: Final = Path(__file__).parents[1] / "tests" / "data"
WORLDS: Final = (64, 256, 1024)
MAX_OFFSET_NS: Final = 1_000_000_000
MAX_DRIFT: Final = 200e-6
RANK_BYTES: Final = 20_000_000  # of a rank's trace as JSON, about
LEAD_NS: Final = 50_000  # of a planted rank before the one of them that is drawn to come last
LISTED_RANKS: Final = 30  # torch writes no more of a group's ranks
_TIME: Final = re.compile(rb'"ts": (\d+)\.(\d{3})')
_NCCL: Final = re.compile(
    rb'"cat": "kernel", "name": "nccl[^\n]*\n\s*"ts": (\d+\.\d{3}), "dur": (\d+\.\d{3})'
)


@dataclass(frozen=True)
class RankText:
    """A real rank: its text around its times, those in ns, and which are of collectives."""

    pieces: list[bytes]
    times: np.ndarray
    collectives: list[tuple[int, int]]  # index of the time; duration in ns, whose text follows it


@dataclass(frozen=True)
class JobResult:
    """What reading one job took, and what was found."""

    reader: str  # "processes" | "Ray"
    workers_killed: int
    ranks: int
    trace_bytes: int  # of a rank, as JSON
    seconds: float
    driver_peak_bytes: int
    planted: list[int]
    named: list[int]  # the first of the stragglers, as many as are planted
    wall_ns: int
    is_exact: bool  # each row, and the account, is the sum of its leaves and of its groups
    digest: str  # of the whole study


def load_ranks(size: int) -> tuple[RankText, RankText]:
    """Take the two real traces apart, grown to about so many bytes each."""
    bases = [split_events(read_text(DATA / f"two_ranks.rank{rank}.json.gz")) for rank in range(2)]
    ranges = [shift_ranges(repeated_pattern(base)) for base in bases]
    shifts = cast("tuple[int, int, int]", tuple(map(max, *ranges)))
    sound, late = (b"".join(grow_trace(base, size, shifts)) for base in bases)
    return split_times(sound), split_times(late)


def split_times(text: bytes) -> RankText:
    """Take the text of a trace apart at its times."""
    matches = list(_TIME.finditer(text))
    bounds = [0, *(bound for match in matches for bound in match.span()), len(text)]
    pieces = [text[low:high] for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
    times = np.array([int(match[1] + match[2]) for match in matches], np.int64)
    index_of = {match.start(): index for index, match in enumerate(matches)}
    collectives = [
        (index_of[match.start(1) - len(b'"ts": ')], int(match[2].replace(b".", b"")))
        for match in _NCCL.finditer(text)
    ]
    return RankText(pieces, times, collectives)


def write_rank(base: RankText, rank: int, world: int, folder: Path) -> None:
    """Write one rank of a job, on a clock of its own."""
    random = np.random.default_rng(rank)
    drift = random.uniform(-MAX_DRIFT, MAX_DRIFT)
    times = base.times.copy()
    pieces = list(base.pieces)
    planted = plant_ranks(world)
    turns = np.random.default_rng(world).integers(len(planted), size=len(base.collectives))
    for (index, length_ns), turn in zip(base.collectives, turns.tolist(), strict=True):
        lead_ns = LEAD_NS if rank in planted and rank != planted[turn] else 0  # all end at once
        times[index] -= lead_ns
        old, new = (b'"dur": %d.%03d' % divmod(ns, 1000) for ns in (length_ns, length_ns + lead_ns))
        pieces[index + 1] = pieces[index + 1].replace(old, new, 1)
    times += ((times - times[0]) * drift).astype(np.int64)
    written = [b'"ts": %d.%03d' % divmod(ns, 1000) for ns in times.tolist()]
    parts = [b""] * (2 * len(pieces) - 1)
    parts[::2], parts[1::2] = pieces, written
    listed = list(range(world))
    if world > LISTED_RANKS:
        listed = [*listed[:LISTED_RANKS], "...", world - 1]
    text = b"".join(parts)
    offset_ns = int(random.integers(-MAX_OFFSET_NS, MAX_OFFSET_NS))
    (base_ns,) = re.findall(rb'"baseTimeNanoseconds": (\d+)', text)
    for old, new in (
        (rb'"baseTimeNanoseconds": \d+', f'"baseTimeNanoseconds": {int(base_ns) + offset_ns}'),
        (rb'"rank": \d, "world_size": 2', f'"rank": {rank}, "world_size": {world}'),
        (rb'"Group size": 2', f'"Group size": {world}'),
        (rb'"\[0, 1\]"', json.dumps("[" + ", ".join(map(str, listed)) + "]")),
    ):
        text = re.sub(old, new.encode(), text)
    (folder / f"rank{rank}.json.gz").write_bytes(igzip.compress(text, 1))


def plant_ranks(world: int) -> list[int]:
    """Return the ranks that come last."""
    return sorted({world // 7, world // 3, world - 2})


def write_job(folder: Path, world: int, size: int = RANK_BYTES) -> None:
    """Write all ranks of a job, of about so many bytes each as JSON."""
    lanes = len(os.sched_getaffinity(0))
    shares = [range(lane, world, lanes) for lane in range(lanes)]
    with ProcessPoolExecutor(lanes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(_write_ranks, folder, world, size), shares))


def _write_ranks(folder: Path, world: int, size: int, ranks: Sequence[int]) -> None:
    sound, late = load_ranks(size)
    planted = plant_ranks(world)
    for rank in ranks:
        write_rank(late if rank in planted else sound, rank, world, folder)


def kill_worker(after_s: float, killed: list[int]) -> None:
    """Kill a worker of Ray that is reading, some seconds after the first one has begun to."""
    me = psutil.Process()
    begun_s = None
    while not killed:
        time.sleep(0.1)
        workers = [child for child in me.children(recursive=True) if _is_reading(child)]
        begun_s = begun_s or (time.monotonic() if workers else None)
        if workers and begun_s and time.monotonic() >= begun_s + after_s:
            workers[0].kill()
            killed.append(workers[0].pid)


def _is_reading(process: psutil.Process) -> bool:
    try:
        return any("ray::answer_on_node" in word for word in process.cmdline())
    except psutil.Error:
        return False


def read_job(folder: Path, world: int, on: str | None) -> JobResult:
    """Read a job in this process, which has done nothing else, and its workers."""
    killed = list[int]()
    if on is not None:
        threading.Thread(target=kill_worker, args=(world / 32, killed), daemon=True).start()
    start = time.perf_counter()
    study = open_study([folder], Options(on=on))
    seconds = time.perf_counter() - start
    account, planted = study.account, plant_ranks(world)
    is_exact = account.wall_ns == sum(account.leaves.values()) == sum(account.groups.values())
    for row in account.rows:
        wall_ns = row.row.end - row.row.start
        is_exact &= wall_ns == sum(row.leaves.values()) == sum(row.groups.values())
    is_exact &= account.wall_ns == sum(row.row.end - row.row.start for row in account.rows)
    return JobResult(
        reader="processes" if on is None else "Ray",
        workers_killed=len(killed),
        ranks=len(study.run.ranks),
        trace_bytes=len(gzip.decompress((folder / "rank0.json.gz").read_bytes())),
        seconds=seconds,
        driver_peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        planted=planted,
        named=sorted(straggler.rank for straggler in study.stragglers[: len(planted)]),
        wall_ns=account.wall_ns,
        is_exact=is_exact,
        digest=hashlib.sha256(encode(study)).hexdigest()[:16],
    )


def measure_job(world: int, readers: Sequence[str]) -> Iterator[JobResult]:
    """Write a job and have fresh processes read it, each with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job")
        job.mkdir()
        write_job(job, world)
        for reader in readers:
            command = [
                sys.executable,
                "-m",
                "benchmarks.many_ranks",
                "--read",
                str(job),
                str(world),
            ]
            with tempfile.TemporaryDirectory() as cache:
                answer = subprocess.run(
                    [*command, *(["--ray"] if reader == "Ray" else [])],
                    env={**os.environ, "GAPLESS_CACHE": cache, "GAPLESS_CACHE_SIZE": "100G"},
                    stdout=subprocess.PIPE,
                    check=True,
                    text=True,
                )
            yield JobResult(**json.loads(answer.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and write the result, or read one job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", nargs=2, metavar=("FOLDER", "WORLD"))
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    if options.read:
        job = read_job(
            Path(options.read[0]), int(options.read[1]), "local" if options.ray else None
        )
        sys.stdout.write(f"{json.dumps(asdict(job))}\n")
        return
    jobs = list[dict[str, object]]()
    for world in options.worlds:
        for result in measure_job(world, ["processes", *(["Ray"] if options.ray else [])]):
            sys.stderr.write(f"{result}\n")
            jobs.append(asdict(result))
            write_result({"machine": machine(), "jobs": jobs}, options.out)


if __name__ == "__main__":
    main()
