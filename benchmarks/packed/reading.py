"""One cell of ``benchmarks.packing``: read all samples, and say how fast."""

import http.client
import io
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import numpy as np
import torch
from torch.utils.data import DataLoader, Subset

from benchmarks.packed.material import FolderArrays, FolderTexts
from gapless.parts import PackedDataset
from gapless.parts.packed_shards import PACKAGES, ROW, SUFFIXES, import_package
from gapless.parts.sample_codec import decode

_BATCH: Final = 64
_WORKERS: Final = 2


class Connection:
    """A connection to the server, kept open; each process makes its own."""

    def __init__(self, address: str) -> None:
        self._parts = urlsplit(address)
        self._client: Any = None

    def get(self, name: str, span: tuple[int, int] | None = None) -> bytes:
        """Return a file, or so many bytes from an offset."""
        if self._client is None:
            self._client = http.client.HTTPConnection(self._parts.netloc)
        headers = {} if span is None else {"Range": f"bytes={span[0]}-{span[0] + span[1] - 1}"}
        self._client.request("GET", quote(f"{self._parts.path}/{name}"), headers=headers)
        return self._client.getresponse().read()


class FolderFiles:
    """Files of a folder, or of a server that has the same: one sample each."""

    def __init__(self, cell: dict[str, Any]) -> None:
        root = Path(cell["path"])
        self.names = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
        self._root = root
        self._set = cell["set"]
        self._connection = Connection(cell["address"]) if cell.get("address") else None

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.names)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        """Return a file as a sample: arrays as tensors, all else as bytes."""
        name = self.names[index]
        data = (
            (self._root / name).read_bytes()
            if self._connection is None
            else self._connection.get(name)
        )
        return torch.from_numpy(np.load(io.BytesIO(data))) if self._set == "arrays" else data


class RemoteRecords:
    """Records of packed shards on a server, each by a request for its range."""

    def __init__(self, cell: dict[str, Any]) -> None:
        self._connection = Connection(cell["address"])
        self._suffix, self._set = SUFFIXES[cell["format"]], cell["set"]
        manifest = json.loads(self._connection.get("packed.json"))
        self._places = [
            (shard["name"], *row[:2])
            for shard in manifest["shards"]
            for row in ROW.iter_unpack(self._connection.get(f"{shard['name']}.idx"))
        ]
        self._connection = Connection(cell["address"])  # not shared with workers

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        """Return a sample."""
        name, offset, length = self._places[index]
        data = self._connection.get(name + self._suffix, (offset, length))
        return data if self._set == "photos" else decode(bytearray(data))


def fetch_shards(address: str, folder: Path) -> None:
    """Copy packed data from a server."""
    connection = Connection(address)
    (folder / "packed.json").write_bytes(connection.get("packed.json"))
    for shard in json.loads((folder / "packed.json").read_text())["shards"]:
        for name in shard["files"]:
            (folder / name).write_bytes(connection.get(name))


def count_samples(batch: list[Any]) -> int:
    """Return how many samples a batch has; what it holds has been read, and is left behind."""
    return len(batch)


def decode_photo(decoder: str, file: Any) -> Any:  # noqa: ANN401
    """Return the pixels of a photograph in an open file."""
    if decoder == "Pillow":
        return np.asarray(import_module("PIL.Image").open(file).convert("RGB"))
    data = file.read()
    if decoder == "simplejpeg":
        return import_module("simplejpeg").decode_jpeg(data)
    cv2 = import_module("cv2")
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), 1), cv2.COLOR_BGR2RGB)


class Decoded:
    """Files of photographs, decoded."""

    def __init__(self, files: FolderFiles, decoder: str) -> None:
        self._files, self._decoder = files, decoder

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._files)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        """Return the pixels of one."""
        return decode_photo(self._decoder, io.BytesIO(self._files[index]))


def read_file(file: Any) -> bytes:  # noqa: ANN401
    """Return what is in a file of a picture, without decoding."""
    return file.read()


def make_dataset(cell: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the data set of a cell."""
    is_remote = bool(cell.get("address"))
    if cell["format"] == "folder":
        local = {"texts": FolderTexts, "arrays": FolderArrays}.get(cell["set"])
        files = FolderFiles(cell)
        if "decoder" in cell:
            return Decoded(files, cell["decoder"])
        return files if is_remote or local is None else local(cell["path"])
    if is_remote:
        return RemoteRecords(cell)
    loader = partial(decode_photo, cell["decoder"]) if "decoder" in cell else read_file
    return PackedDataset(cell["path"], loader=loader)


def count_decoded(cell: dict[str, Any]) -> Iterator[int]:
    """Read and decode a folder of photographs by DALI on the processors; yield counts."""
    fn: Any = import_module("nvidia.dali.fn")
    pipeline: Any = import_module("nvidia.dali").Pipeline
    with pipeline(batch_size=_BATCH, num_threads=_WORKERS, device_id=None) as graph:
        is_shuffled = cell["order"] == "random"
        data, labels = fn.readers.file(
            file_root=cell["path"], random_shuffle=is_shuffled, name="files"
        )
        graph.set_outputs(fn.decoders.image(data, device="cpu"), labels)
    graph.build()
    left = graph.epoch_size("files")
    while left > 0:
        yield min(left, len(graph.run()[0]))
        left -= _BATCH


def make_loader(cell: dict[str, Any]) -> Iterable[int]:
    """Return what yields counts of samples."""
    if cell.get("decoder") == "DALI":
        return count_decoded(cell)
    if cell["reader"] == "webdataset's own":
        import webdataset as wds

        names = sorted(path.name for path in Path(cell["path"]).glob("*.tar"))
        root = f"pipe:curl -s {cell['address']}" if cell.get("address") else cell["path"]
        shards = [f"{root}/{name}" for name in names]
        dataset: Any = wds.WebDataset(shards, shardshuffle=False, empty_check=False)
        workers = min(_WORKERS, len(shards))
        return DataLoader(dataset, _BATCH, num_workers=workers, collate_fn=count_samples)
    is_shuffled = cell["order"] == "random"
    options: dict[str, Any] = {"num_workers": _WORKERS, "collate_fn": count_samples}
    if cell["reader"] == "litdata's own":
        import litdata

        chunks = litdata.StreamingDataset(cell["path"], shuffle=is_shuffled)
        return litdata.StreamingDataLoader(chunks, batch_size=_BATCH, **options)
    if cell["reader"] == "streaming's own":
        import streaming

        shards = streaming.StreamingDataset(
            local=cell["path"], shuffle=is_shuffled, batch_size=_BATCH
        )
        return DataLoader(shards, _BATCH, **options)  # their loader looks into batches
    dataset = make_dataset(cell)
    if len(dataset) > cell.get("most", len(dataset)):
        dataset = Subset(dataset, range(cell["most"]))
    return DataLoader(
        dataset,
        _BATCH,
        shuffle=is_shuffled,
        **options,
    )


def send_figures(cell: dict[str, Any], sending: Any) -> None:  # noqa: ANN401
    """Read all samples once; send samples a second, and processor time of each."""
    torch.manual_seed(0)
    multiprocessing.set_start_method("fork", force=True)  # of everybody's workers
    if cell["format"] in PACKAGES:
        import_package(cell["format"])  # once in a training, and not a matter of reading
    if cell["reader"].endswith("'s own"):
        import_module(cell["reader"].removesuffix("'s own"))
    with tempfile.TemporaryDirectory() as scratch:
        began_s, cpu_s = time.perf_counter(), _cpu_s()
        if "whole shards" in cell["reader"]:
            fetch_shards(cell["address"], Path(scratch))
            cell = {**cell, "path": scratch, "address": None}
        count = sum(make_loader(cell))
        wall_s = time.perf_counter() - began_s
        used_s = _cpu_s() - cpu_s
    sending.send({"samples_per_s": count / wall_s, "cpu_ms": used_s / count * 1e3})


def _cpu_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
