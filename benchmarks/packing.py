"""How fast packed data are read: ``python -m benchmarks.packing OUT.json --rounds 5``.

Three data sets (photographs, small texts, large arrays) as a plain folder and in each format of
``gapless pack``, read by torch's DataLoader with two workers, in order and at random: *warm*,
*cold* (every page dropped by ``fadvise``, in a process that maps nothing yet) and *slow* (from a
server on this machine that waits before each answer and sends so many bytes a second). The loaders
of WebDataset, MosaicML Streaming and LitData read the shards that are theirs, where they are
installed. Each cell is a process of its own, forked from one that has imported what they need;
formats are read in turns, round by round. What is read is counted and thrown away: neither decoding
nor the way from workers is in it. Photographs are also decoded, by each decoder that is there, from
a plain folder and from the packed format.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Container, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, versions, write_result
from benchmarks.packed.material import SETS, drop_pages, make_folder, pack_folder
from benchmarks.packed.reading import send_figures
from benchmarks.packed.server import serve

FORMATS: Final = ("packed", "tar", "lmdb", "hdf5", "npy", "mds", "litdata")
ORDERS: Final = ("random", "in order")
PEERS: Final = {"tar": "webdataset", "mds": "streaming", "litdata": "litdata"}  # read by them too
DECODERS: Final = {
    "Pillow": "PIL",
    "simplejpeg": "simplejpeg",
    "OpenCV": "cv2",
    "DALI": "nvidia.dali",
}
WHOLE: Final = "whole shards first"  # over a network: fetched, then read from the disk
_PACKAGES: Final = (
    "torch", "lmdb", "h5py", "webdataset", "litdata", "mosaicml-streaming", "pillow", "simplejpeg",
    "opencv-python-headless", "nvidia-dali-cuda130",
)  # fmt: skip
_PRELOADED: Final = ["benchmarks.packed.reading", *PEERS.values(), *DECODERS.values()]
_LATENCY_S: Final = 0.01
_MAX_REQUESTS: Final = 600  # of a cell: each waits
_BYTES_PER_S: Final = 100e6


def main() -> None:
    """Make the data, measure the cells in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual samples")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where data are made and kept")
    parser.add_argument("--only", choices=SETS, action="append")
    options = parser.parse_args()
    rows = read_other_rows(options.out, options.only or SETS)
    with tempfile.TemporaryDirectory() as scratch:
        home = options.folder or Path(scratch)
        for name in options.only or SETS:  # each is written at once: all take an hour
            rows += measure_set(name, home, options.scale, options.rounds)
            result = {
                "machine": machine(),
                "packages": versions(_PACKAGES),
                "latency_s": _LATENCY_S,
                "bytes_per_s": _BYTES_PER_S,
                "rows": rows,
            }
            write_result(result, options.out)
    print(table(rows))


def read_other_rows(out: Path | None, names: Container[str]) -> list[dict[str, Any]]:
    """Return the rows that were measured of other sets than these."""
    if out is None or not out.exists():
        return []
    return [row for row in json.loads(out.read_text())["rows"] if row["set"] not in names]


def measure_set(name: str, home: Path, scale: float, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each way of reading a data set."""
    folder = home / name
    sizes = {"folder": make_folder(folder / "folder", name, scale)}
    for kind in FORMATS:
        if kind != "npy" or name == "arrays":
            sizes[kind] = pack_folder(folder, name, kind)
    with serve(home, _LATENCY_S, _BYTES_PER_S) as address:
        cells = list(list_cells(name, folder, f"{address}/{name}", [*sizes]))
        figures: dict[int, list[dict[str, float]]] = {number: [] for number in range(len(cells))}
        for _ in range(rounds):
            for number, cell in enumerate(cells):
                drop_pages(folder / cell["format"], keep=cell["storage"] != "cold")
                figures[number].append(measure_cell(cell))
    for number, cell in enumerate(cells):
        rates = [figure["samples_per_s"] for figure in figures[number]]
        yield {
            "set": name,
            "scale": scale,
            "rounds": rounds,
            **{key: cell[key] for key in ("reader", "storage", "order")},
            "bytes": sizes[cell["format"]],
            "samples_per_s": statistics.median(rates),
            "slowest": min(rates),
            "fastest": max(rates),
            "cpu_ms": statistics.median(figure["cpu_ms"] for figure in figures[number]),
        }


def list_cells(name: str, folder: Path, address: str, kinds: list[str]) -> Iterator[dict[str, Any]]:
    """Yield what is measured of a data set."""
    for kind in kinds:
        cell = {"set": name, "format": kind, "reader": kind, "path": str(folder / kind)}
        for order in ORDERS:
            for storage in ("warm", "cold"):
                yield {**cell, "storage": storage, "order": order}
            slow = {**cell, "storage": "slow", "order": order, "address": f"{address}/{kind}"}
            if kind in ("folder", "packed", "tar"):  # by a request for each sample
                yield {**slow, "most": _MAX_REQUESTS}
            if kind != "folder" and order == "random":
                yield {**slow, "reader": f"{kind}, {WHOLE}"}
        yield from _list_peer_cells(cell, f"{address}/{kind}")
        if name == "photos" and kind in ("folder", "packed"):
            yield from _list_decoders(cell)


def _list_peer_cells(cell: dict[str, Any], address: str) -> Iterator[dict[str, Any]]:
    """Yield how the library of a format reads it."""
    peer = PEERS.get(cell["format"])
    if peer is None or find_spec(peer) is None:
        return
    is_ordered = peer == "webdataset"
    for order in ORDERS[1:] if is_ordered else ORDERS:
        cell = {**cell, "reader": f"{peer}'s own", "order": order}
        for storage in ("warm", "cold"):
            yield {**cell, "storage": storage}
        if is_ordered:  # the others speak to object stores
            yield {**cell, "storage": "slow", "address": address}


def _list_decoders(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield how photographs are read and decoded, by each decoder that is installed."""
    for decoder, package in DECODERS.items():
        is_readable = decoder != "DALI" or cell["format"] == "folder"  # which it reads itself
        if is_readable and _is_installed(package):
            reader = f"{cell['format']}, {decoder}"
            decoded = {**cell, "reader": reader, "decoder": decoder, "order": "random"}
            for storage in ("warm", "cold"):
                yield {**decoded, "storage": storage}


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def measure_cell(cell: dict[str, Any]) -> dict[str, float]:
    """Return what a process of its own measured."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=send_figures, args=(cell, sending))
    process.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        sys.exit(f"{cell} failed")
    finally:
        process.join()


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    names = "| set | reader | storage | order | samples/s | range | CPU ms a sample |"
    lines = [names, "|---" * 7 + "|"]
    lines += [
        f"| {row['set']} | {row['reader']} | {row['storage']} | {row['order']} "
        f"| {row['samples_per_s']:,.0f} | {row['slowest']:,.0f}–{row['fastest']:,.0f} "
        f"| {row['cpu_ms']:.3f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
