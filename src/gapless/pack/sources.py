"""Which source and which target a command line means; looked at before anything is read."""

import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.errors import NotFoundError, UsageError
from gapless.pack.manifest import FILE

FORMAT_BY_SUFFIX: Final = {
    ".packed": "packed",
    ".tar": "tar",
    ".wds": "tar",
    ".lmdb": "lmdb",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".npy": "npy",
    ".mds": "mds",
    ".litdata": "litdata",
}
_KIND_BY_SUFFIX: Final = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tar": "tar",
}
_DATASET: Final = re.compile(r"(?P<place>[^:]+\.py|[A-Za-z_][\w.]*):(?P<expression>.+)", re.DOTALL)


class SourceSpec(Struct, frozen=True):
    """A source: what it is, and where."""

    kind: str  # images, csv, parquet, tar, dataset
    path: str  # of a data set: MODULE:EXPRESSION

    @property
    def is_code(self) -> bool:
        """Return whether it is the user's own code that reads it."""
        return self.kind == "dataset"


def find_source(text: str) -> SourceSpec:
    """Return what a source is. Raises ``NotFoundError`` and ``UsageError``."""
    _refuse_url(text)
    path = Path(text)
    if path.is_dir():
        if (path / FILE).exists() and not any(path.glob("*.tar")):
            raise UsageError(f"{text} is packed itself: pack its source, or read it and pack that")
        has_tars = any(entry.suffix == ".tar" for entry in path.iterdir())
        return SourceSpec("tar" if has_tars else "images", text)
    if path.is_file():
        kind = _KIND_BY_SUFFIX.get(path.suffix.lower())
        if kind is not None:
            return SourceSpec(kind, text)
        if path.suffix == ".py":
            raise UsageError(f"name the data set in it: {text}:NAME")
        raise UsageError(
            f"{text} cannot be packed: a source is a folder of images or tar shards, a .csv, .tsv, "
            ".parquet or .tar file, or a data set as file.py:NAME or module:NAME"
        )
    match = _DATASET.fullmatch(text)
    if match is None:
        raise NotFoundError(f"{text}: there is no such file or folder")
    if match["place"].endswith(".py") and not Path(match["place"]).is_file():
        raise NotFoundError(f"{match['place']}: there is no such file")
    return SourceSpec("dataset", text)


def _refuse_url(text: str) -> None:
    if "://" in text:
        raise UsageError(
            f"{text}: a source is on this machine, or a data set that reads what is elsewhere: "
            "file.py:NAME"
        )


def choose_format(target: Path, named_format: str | None) -> str:
    """Return the format of a target: as it was named, else by its suffix, else plain files."""
    return named_format or FORMAT_BY_SUFFIX.get(target.suffix.lower(), "packed")


def check_places(source: SourceSpec, target: Path) -> None:
    """Raise ``UsageError`` if a target cannot be a folder of its own."""
    if ":/" in str(target):
        raise UsageError(
            f"{target}: a target is a folder on this machine: copy it to its URL when it is whole; "
            "PackedDataset reads it there"
        )
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is there and no folder: a target is a folder")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target} cannot be made: there is no folder {target.parent}")
    if not source.is_code and Path(source.path).is_dir():
        inside = Path(source.path).resolve()
        if inside in (target.resolve(), *target.resolve().parents):
            raise UsageError(f"{target} lies in its own source {source.path}: choose another place")
