"""What a folder of packed data says of itself: ``packed.json``, written whole or not at all."""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from gapless.errors import PackingError
from gapless.store.atomic import write_named_file

FILE: Final = "packed.json"
VERSION: Final = 1


class PackedFile(Struct, frozen=True):
    """A file as it was written."""

    bytes: int
    sha256: str


class PackedShard(Struct, frozen=True):
    """Samples that lie in one file, beside its index."""

    name: str
    first: int  # its first sample
    samples: int
    files: dict[str, PackedFile] = {}  # by name; none: it is not written yet

    @property
    def is_written(self) -> bool:
        """Return whether its files are there, whole."""
        return bool(self.files)

    @property
    def bytes(self) -> int:
        """Return the size of its files."""
        return sum(file.bytes for file in self.files.values())


class PackManifest(Struct, frozen=True):
    """What was packed, how, and which shards are written."""

    gapless_pack: int
    gapless: str  # version
    format: str
    kind: str  # images: files as they were; samples; files: of shards, by extension
    source: str  # as it was typed
    fingerprint: str  # of the source: another one cannot be gone on with
    samples: int
    complete: bool
    classes: list[str] | None
    skeleton: Any  # of npy: the tree of each sample
    shards: list[PackedShard]

    @property
    def bytes(self) -> int:
        """Return the size of all files that are written."""
        return sum(shard.bytes for shard in self.shards)


def read_manifest(folder: Path) -> PackManifest | None:
    """Return the manifest of a folder; ``None``: it has none. Raises ``PackingError``."""
    path = folder / FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=PackManifest)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise PackingError(f"{path} cannot be read: {error}; choose another target") from None
    if manifest.gapless_pack > VERSION:
        raise PackingError(
            f"{folder} was packed in version {manifest.gapless_pack} of the format, and this "
            f"gapless knows version {VERSION}: upgrade gapless"
        )
    return manifest


def write_manifest(folder: Path, manifest: PackManifest) -> None:
    """Write the manifest of a folder in one piece. Raises ``OSError``."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_named_file(folder / FILE, content)
