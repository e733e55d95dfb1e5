"""What joining the collectives of many ranks takes of the process that asks for it.

``python -m benchmarks.joining --out benchmarks/results/joining.json``. Made ranks have 2,000
collectives each, half of them of all ranks and half of a group of eight. They are joined by process
group in worker processes, and all at once in the asking one. Each job has a fresh process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.machine import machine, write_result
from gapless.accounting import Collectives, match_collectives
from gapless.capture.ranks.ranks import ask_processes, plan_joins
from gapless.capture.ranks.tasks import Head, split_collectives
from gapless.formats.processes import count_processors
from gapless.model.trace import Collective

WORLDS: Final = (64, 256, 1024)
COUNT: Final = 2000  # collectives of a rank
GROUP: Final = 8  # ranks of a small group


@dataclass(frozen=True)
class JoinResult:
    """What one join took."""

    by_group: bool
    ranks: int
    seconds: float
    added_bytes: int  # to the peak of this process


def draw_rank(rank: int, world: int) -> Collectives:
    """Return the collectives of one rank."""
    random = np.random.default_rng(rank)
    first = rank // GROUP * GROUP
    members = str([*range(first, first + GROUP)])
    calls = tuple(
        Collective("allreduce", "Float", 8, 8, "tensor", GROUP, members, seq)
        if seq % 2
        else Collective("allgather", "Half", 8, 8, "world", world, None, seq)
        for seq in range(COUNT)
    )
    end = np.arange(1, COUNT + 1) * 1_000_000 + rank * 10**9
    start = end - random.integers(10_000, 900_000, COUNT)
    return Collectives(rank, 0, np.arange(COUNT), start, end, calls, np.full(COUNT, -1))


def join(world: int, *, by_group: bool) -> JoinResult:
    """Join ranks in this process, which has done nothing else, or by its workers."""
    with tempfile.TemporaryDirectory() as folder:
        if not by_group:
            before_bytes, start = peak_bytes(), time.perf_counter()
            match_collectives([draw_rank(rank, world) for rank in range(world)])
            seconds = time.perf_counter() - start
            return JoinResult(by_group, world, seconds, peak_bytes() - before_bytes)
        heads: dict[str, Head] = {}
        for rank in range(world):
            groups, blob = split_collectives(draw_rank(rank, world))
            Path(folder, f"head{rank}").write_bytes(blob)
            heads[f"rank{rank}"] = Head("", rank, 0, groups)
        names = {f"rank{rank}": f"head{rank}" for rank in range(world)}
        before_bytes, start = peak_bytes(), time.perf_counter()
        with ask_processes(count_processors(), {"TMPDIR": folder}) as ask:
            answers = [*ask([*plan_joins(heads, names, {})])]
        if any(answer.refused for answer in answers):
            raise SystemExit("a group was not joined")
        seconds = time.perf_counter() - start
        return JoinResult(by_group, world, seconds, peak_bytes() - before_bytes)


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(worlds: Sequence[int]) -> list[dict[str, object]]:
    """Join jobs of several sizes, each in a process of its own."""
    results: list[dict[str, object]] = []
    for world in worlds:
        for manner in ("groups", "all"):
            command = [sys.executable, "-m", "benchmarks.joining", "--join", str(world), manner]
            answer = subprocess.run(
                command, env=dict(os.environ), stdout=subprocess.PIPE, check=True, text=True
            )
            sys.stderr.write(answer.stdout)
            results.append(json.loads(answer.stdout))
    return results


def main() -> None:
    """Measure and write the result, or join one job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--join", nargs=2, metavar=("WORLD", "MANNER"))
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    options = parser.parse_args()
    if options.join:
        result = join(int(options.join[0]), by_group=options.join[1] == "groups")
        sys.stdout.write(f"{json.dumps(asdict(result))}\n")
        return
    write_result({"machine": machine(), "joins": measure(options.worlds)}, options.out)


if __name__ == "__main__":
    main()
