"""A data set that was written by ``gapless pack``, read back sample by sample."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
from bisect import bisect_right
from typing import Any, Callable, NamedTuple, Optional

from torch.utils.data import Dataset

from .packed_shards import (
    NO_LABEL,
    SHARDS,
    SUFFIXES,
    ShardIndex,
    check_size,
    find_file,
    is_url,
    open_far,
    parse_members,
)
from .sample_codec import decode, rebuild

MANIFEST = "packed.json"
VERSION = 1
# In a process: each takes two of the files that it may have open.
_MAX_OPEN_SHARDS = min(max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4), 4096)
_PICKLED = ("path", "transform", "target_transform", "loader", "cache")
_PAIR = 2  # an input and its label

Change = Optional[Callable[[Any], Any]]


class PackedDataset(Dataset[Any]):
    """Read a folder that ``gapless pack`` wrote: the samples of its source, in their order.

    ``path``: the folder. ``transform``: applied to the input of a sample (what stands first in a
    pair, else the whole sample), ``target_transform``: to what stands second in a pair.
    ``loader``: makes an image of an open file, where files of images were packed; by default
    Pillow's image in RGB, as torchvision's ``ImageFolder`` does. ``cache``: where ``path`` is an
    URL that fsspec reads, the folder on a local disk to which each shard is copied when it is first
    read from; later runs find it there.

    ``len()``, indices and negative indices are as of a list. Of images in folders of classes there
    are ``classes``, ``class_to_idx``, ``targets`` and ``samples`` as in ``ImageFolder``.

    It may be handed to workers however they are started: it pickles as its path and transforms, and
    each process opens shards when it first reads from them.

    Raises ``FileNotFoundError`` where no data set was packed, ``ValueError`` for an URL without a
    ``cache``, or if it was not packed
    to its end, or a file of it is shorter or longer than it was written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transform: Change = None,
        target_transform: Change = None,
        loader: Callable[[Any], Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = os.fspath(path).removeprefix("file://")
        self.cache = None if cache is None else os.fspath(cache)
        self.transform, self.target_transform = transform, target_transform
        self.loader = loader
        self._open()

    def _open(self) -> None:
        self._manifest, self._copies = open_manifest(self.path, self.cache)
        self.classes: list[str] | None = self._manifest["classes"]
        self._shards: list[dict[str, Any]] = self._manifest["shards"]
        self._firsts = [shard["first"] for shard in self._shards]
        self._owner = os.getpid()
        self._open_shards: dict[int, OpenShard] = {}

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._manifest["samples"]

    def __getitem__(self, index: int) -> Any:
        """Return a sample. Raises ``IndexError``."""
        record = self.read_record(index)
        return self._transform(self._make_sample(record))

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return samples; the kernel reads the later ones while the first are made."""
        for index in indices:
            number, row = self._locate(index)
            shard = self._shard(number)
            shard.records.prefetch(shard.places[row])
        return [self[index] for index in indices]

    def read_record(self, index: int) -> PackedRecord:
        """Return the bytes of a sample as they were packed, and its label."""
        number, row = self._locate(index)
        shard = self._shard(number)
        place = shard.places[row]
        label = None if place.label == NO_LABEL else place.label
        return PackedRecord(shard.records.read(row, place), label)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Return the label of each class."""
        return {name: label for label, name in enumerate(self.classes or ())}

    @property
    def targets(self) -> list[int | None]:
        """Return the label of each sample, without reading the samples; ``None``: it has none."""
        labels: list[int] = []
        for shard in self._shards:
            index = ShardIndex(self._find_file(shard, ".idx"))
            labels += [index[row].label for row in range(len(index))]
            index.close()
        return [None if label == NO_LABEL else label for label in labels]

    @property
    def samples(self) -> list[tuple[str, int | None]]:
        """Return the name of each sample in its source, and its label."""
        return list(zip(self.names, self.targets))

    @property
    def names(self) -> list[str]:
        """Return the name of each sample in its source; of a source without names their numbers."""
        names: list[str] = []
        for shard in self._shards:
            if f"{shard['name']}.names.json" not in shard["files"]:
                return [str(index) for index in range(len(self))]
            with open(self._find_file(shard, ".names.json"), encoding="utf-8") as file:
                names += json.load(file)
        return names

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what is needed to open it again."""
        return {name: getattr(self, name) for name in _PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open it again."""
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        """Return where it is, and how much."""
        return f"PackedDataset({self.path!r}, {len(self)} samples as {self._manifest['format']})"

    def _locate(self, index: int) -> tuple[int, int]:
        count = len(self)
        position = index + count if index < 0 else index
        if not 0 <= position < count:
            raise IndexError(f"sample {index} of {count}")
        shard = bisect_right(self._firsts, position) - 1
        return shard, position - self._firsts[shard]

    def _find_file(self, shard: dict[str, Any], suffix: str) -> str:
        """Return the path of a file of a shard, on this machine."""
        name = shard["name"] + suffix
        return find_file(self.path, name, self._copies, shard["files"][name]["bytes"])

    def _shard(self, number: int) -> OpenShard:
        """Return a shard, opened by this process."""
        if self._owner != os.getpid():  # a fork: LMDB's maps must not be read on both sides of it
            for inherited in self._open_shards.values():
                inherited.close()
            self._owner, self._open_shards = os.getpid(), {}
        if number not in self._open_shards:
            if len(self._open_shards) >= _MAX_OPEN_SHARDS:
                self._open_shards.pop(next(iter(self._open_shards))).close()
            kind, shard = self._manifest["format"], self._shards[number]
            records = SHARDS[kind](self._find_file(shard, SUFFIXES[kind]))
            places = ShardIndex(self._find_file(shard, ".idx"))
            self._open_shards[number] = OpenShard(places, records)
        return self._open_shards[number]

    def _make_sample(self, record: PackedRecord) -> Any:
        kind, skeleton = self._manifest["kind"], self._manifest["skeleton"]
        if kind == "images":
            image = (self.loader or load_rgb)(io.BytesIO(record.data))
            return image if record.label is None else (image, record.label)
        if kind == "files" and self._manifest["format"] == "tar":
            return parse_members(record.data)
        return decode(record.data) if skeleton is None else rebuild(skeleton, record.data)

    def _transform(self, sample: Any) -> Any:
        if self.transform is None and self.target_transform is None:
            return sample
        if type(sample) is not tuple or len(sample) != _PAIR:
            return sample if self.transform is None else self.transform(sample)
        first, second = sample
        first = first if self.transform is None else self.transform(first)
        second = second if self.target_transform is None else self.target_transform(second)
        return first, second


class OpenShard(NamedTuple):
    """A shard that is open: where its records are, and what reads them."""

    places: ShardIndex
    records: Any

    def close(self) -> None:
        """Close its files."""
        self.places.close()
        self.records.close()


class PackedRecord(NamedTuple):
    """The bytes of a sample, and its label."""

    data: Any
    label: int | None


def load_rgb(file: Any) -> Any:
    """Return the image in an open file, in RGB."""
    from PIL import Image  # noqa: PLC0415 - only where images are read

    return Image.open(file).convert("RGB")


def open_manifest(path: str, cache: str | None) -> tuple[dict[str, Any], str | None]:
    """Return what packed data say of themselves, and where their files are copied to.

    Local files are looked at, whether they have their sizes, and not copied (``None``). Copies of
    data that are packed anew get a folder of their own. Raises as ``PackedDataset`` does.
    """
    if is_url(path) and cache is None:
        raise ValueError(f"{path} is an URL: a folder for copies of its files is needed, cache=…")
    try:
        text = _read(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: nothing was packed there: no {MANIFEST}") from None
    manifest = json.loads(text)
    if manifest["gapless_pack"] > VERSION:
        raise ValueError(
            f"{path} is of version {manifest['gapless_pack']}, and this reads version {VERSION}: "
            "upgrade gapless"
        )
    if not manifest["complete"]:
        raise ValueError(f"{path} is not complete: the same gapless pack command goes on with it")
    if cache is not None and is_url(path):
        return manifest, os.path.join(cache, hashlib.sha256(text).hexdigest()[:16])
    for shard in manifest["shards"]:
        for name, written in shard["files"].items():
            check_size(os.path.join(path, name), written["bytes"])
    return manifest, None


def _read(folder: str) -> bytes:
    path = os.path.join(folder, MANIFEST)
    with open_far(path) if is_url(path) else open(path, "rb") as file:
        return file.read()
