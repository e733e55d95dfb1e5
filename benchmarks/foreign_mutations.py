"""Mutate what other profilers write, open each mutant, and count what comes of it.

``python -m benchmarks.foreign_mutations --count 2000`` makes as many mutants of each format, and
writes ``results/foreign_mutations.json``; anything but a sound trace or a ``GaplessError`` ends it
with the seed of the culprit.
"""

import argparse
import gzip
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.mutations import find_faults, mutate, report_trace
from gapless.errors import GaplessError
from gapless.formats import read
from tests.formats.nsight_writing import loop_rows, write_database
from tests.formats.proto_writing import (
    executor_profile,
    gpu_profile,
    perfetto_trace,
    tensorflow_profile,
    varint,
)
from tests.formats.rocprof_writing import rocprof_json

RESULT = Path(__file__).parent / "results" / "foreign_mutations.json"
_GZIP_SHARE = 0.15
_VALUES = ("text", b"\xff\x00", None, -1, 0, 2**62, 2**63 - 1, -(2**63), 1e300, 3.5, "")
_HUGE = (varint(2**63), varint(2**64 - 1), b"\xff" * 12, varint(1 << 40))
Maker = Callable[[Path, random.Random], Path]


def make_nsight(folder: Path, rng: random.Random) -> Path:
    """Write a database with values that no exporter writes, or with bytes that were changed."""
    path = write_database(folder / "mutant.sqlite", loop_rows(4))
    if rng.random() < 0.5:  # noqa: PLR2004  every second: the values; else the bytes
        with closing(sqlite3.connect(path)) as connection:
            for _ in range(rng.choice((1, 2, 5))):
                _change_values(connection, rng)
            connection.commit()
    if rng.random() < 0.6:  # noqa: PLR2004
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice((1, 1, 3, 20))):
            _change_bytes(data, rng)
        path.write_bytes(data)
    return path


def _change_values(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Change a column of some rows, empty a table, or take one away."""
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    table = rng.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    kind = rng.random()
    try:
        if kind < 0.1:  # noqa: PLR2004  one in ten
            connection.execute(f"DROP TABLE {table}")
        elif kind < 0.2:  # noqa: PLR2004
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  a table of ours
        else:
            share = rng.choice(("1", "rowid % 2", "rowid = 1"))
            query = f"UPDATE {table} SET {rng.choice(columns)} = ? WHERE {share}"  # noqa: S608
            connection.execute(query, (rng.choice(_VALUES),))
    except sqlite3.Error:  # a key that must be unique, a column that must not be empty
        return


def _change_bytes(data: bytearray, rng: random.Random) -> None:
    if not data:
        return
    place, kind = rng.randrange(len(data)), rng.randrange(6)
    if kind <= 1:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 2:  # noqa: PLR2004  each kind of damage is as frequent
        del data[place : place + rng.choice((1, 2, 40, 400))]
    elif kind == 3:  # noqa: PLR2004
        data[place:place] = rng.choice((*_HUGE, rng.randbytes(4)))
    elif kind == 4:  # noqa: PLR2004
        data[place:place] = data[: rng.choice((10, 300))]
    else:
        del data[place:]


def make_xplane(folder: Path, rng: random.Random) -> Path:
    """Write a profile of XLA whose bytes were changed."""
    makers = gpu_profile, tensorflow_profile, executor_profile
    return _write_mutant(folder / "mutant.xplane.pb", rng.choice(makers)(4), rng)


def make_perfetto(folder: Path, rng: random.Random) -> Path:
    """Write a trace of Perfetto whose bytes were changed."""
    return _write_mutant(folder / "mutant.pftrace", perfetto_trace(4), rng)


def _write_mutant(path: Path, source: bytes, rng: random.Random) -> Path:
    data = bytearray(source)
    for _ in range(rng.choice((1, 1, 2, 6))):
        _change_bytes(data, rng)
    if rng.random() < _GZIP_SHARE:
        data = bytearray(gzip.compress(bytes(data), 1))
        _change_bytes(data, rng)
    path.write_bytes(data)
    return path


def make_rocprof(folder: Path, rng: random.Random) -> Path:
    """Write JSON of rocprofv3 that was changed as JSON is."""
    path = folder / "mutant.json"
    text = rocprof_json(4).replace(b":", b": ").replace(b",", b", ")  # as ``mutate`` looks for it
    path.write_bytes(mutate(text, rng))
    return path


MAKERS: dict[str, Maker] = {
    "nsight": make_nsight,
    "xla": make_xplane,
    "perfetto": make_perfetto,
    "rocprof": make_rocprof,
}


def try_mutant(make: Maker, folder: Path, rng: random.Random) -> str:
    """Open a mutant and say what came of it; an unsound trace raises ``AssertionError``."""
    path = make(folder, rng)
    try:
        trace = read(path)
        faults = find_faults(trace)
        if faults:
            raise AssertionError("; ".join(faults))
        report_trace(trace)
    except GaplessError as error:
        return f"refused ({error.slug})"
    finally:
        path.unlink(missing_ok=True)
    health = trace.health
    return "dropped or cut, and counted" if health.dropped or health.truncated else "read"


def run_mutants(kind: str, count: int, seed: str) -> tuple[Counter[str], float]:
    """Open mutants of a format; return what came of them, and the seconds of the slowest."""
    outcomes: Counter[str] = Counter()
    slowest_s = 0.0
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            rng = random.Random(f"{seed}:{kind}:{number}")
            before = time.perf_counter()
            try:
                outcomes[try_mutant(MAKERS[kind], Path(name), rng)] += 1
            except BaseException:
                print(f"mutant {number} of {kind}, seed {seed}:", file=sys.stderr)
                raise
            slowest_s = max(slowest_s, time.perf_counter() - before)
    return outcomes, slowest_s


def main() -> int:
    """Open mutants of each format and write what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="mutants of each format")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    outcomes: dict[str, object] = {}
    for kind in MAKERS:
        counts, slowest_s = run_mutants(kind, arguments.count, arguments.seed)
        outcomes[kind] = {"outcomes": dict(counts.most_common()), "slowest_s": round(slowest_s, 3)}
        print(kind, outcomes[kind], flush=True)
    result = {
        "count": arguments.count,
        "seed": arguments.seed,
        "formats": outcomes,
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
