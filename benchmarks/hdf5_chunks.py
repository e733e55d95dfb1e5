"""How HDF5's layout decides what a record costs: ``python -m benchmarks.hdf5_chunks OUT.json``.

An array of bytes with records of 100 kB, as ``gapless pack --to hdf5`` writes it, without chunks,
and in chunks of a record, of 64 KiB and of 1 MiB; read by one process at random and in order, warm
and cold (pages dropped by ``fadvise``), in turns.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.machine import machine, versions, write_result
from benchmarks.packed.material import drop_pages

_RECORDS: Final = 1200
_READ_RECORDS: Final = 600
_RECORD_BYTES: Final = 100_000
_CHUNKS: Final = {"none": None, "a record": _RECORD_BYTES, "64 KiB": 1 << 16, "1 MiB": 1 << 20}
_STEP: Final = 50  # records that are written at a time


def main() -> None:
    """Write the files, read them in turns, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--order", default="random", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        print(json.dumps(read_records(options.read, options.order)))
        return
    figures: dict[tuple[str, str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in _CHUNKS:
            write_file(Path(scratch) / name / "records.h5", _CHUNKS[name])
        for _ in range(options.rounds):
            for name in _CHUNKS:
                for storage in ("warm", "cold"):
                    for order in ("random", "in order"):
                        drop_pages(Path(scratch) / name, keep=storage == "warm")
                        figure = measure(Path(scratch) / name / "records.h5", order)
                        figures.setdefault((name, storage, order), []).append(figure)
    rows: list[dict[str, Any]] = [
        {
            "chunks": name,
            "storage": storage,
            "order": order,
            "records_per_s": statistics.median(figure[0] for figure in group),
            "slowest": min(figure[0] for figure in group),
            "fastest": max(figure[0] for figure in group),
            "cpu_ms": statistics.median(figure[1] for figure in group),
        }
        for (name, storage, order), group in figures.items()
    ]
    result = {"machine": machine(), "packages": versions(("h5py",)), "rows": rows}
    print(write_result({**result, "rounds": options.rounds}, options.out))


def write_file(path: Path, chunk_bytes: int | None) -> None:
    """Write an array of bytes in chunks of a size, or without."""
    import h5py

    path.parent.mkdir()
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        chunks = None if chunk_bytes is None else (chunk_bytes,)
        data = file.create_dataset("data", (_RECORDS * _RECORD_BYTES,), "u1", chunks=chunks)
        step = _STEP * _RECORD_BYTES
        for start in range(0, _RECORDS * _RECORD_BYTES, step):
            data[start : start + step] = rng.integers(0, 255, step, dtype="u1")


def measure(path: Path, order: str) -> list[float]:
    """Return records a second and processor time of each, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.hdf5_chunks", "--read", str(path)]
    process = subprocess.run(
        [*command, "--order", order], capture_output=True, check=True, text=True
    )
    return json.loads(process.stdout)


def read_records(path: Path, order: str) -> list[float]:
    """Read records one by one."""
    import h5py

    indices = list(range(_READ_RECORDS))
    if order == "random":
        indices = random.Random(0).sample(range(_RECORDS), _READ_RECORDS)
    with h5py.File(path, "r") as file:
        data: Any = file["data"]
        began_s, cpu_s = time.perf_counter(), time.process_time()
        for index in indices:
            data[index * _RECORD_BYTES : (index + 1) * _RECORD_BYTES]
        wall_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return [len(indices) / wall_s, used_s / len(indices) * 1e3]


if __name__ == "__main__":
    main()
