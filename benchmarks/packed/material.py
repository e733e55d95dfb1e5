"""What is read: folders of photographs, texts and arrays, and the same packed."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

SETS: Final = {"photos": 3000, "texts": 20_000, "arrays": 400}  # samples
_N_PICTURES: Final = 40  # that are made; files repeat them
_SIDE: Final = 420  # pixels: about 100 KB as JPEG of noise
_ARRAY: Final = (3, 256, 256)  # float32: 0.8 MB
_FILES_OF_A_FOLDER: Final = 500


class FolderArrays:
    """Arrays in files, as tensors: what a data set of a user's does."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(Path(folder).rglob("*.npy"))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        """Return an array."""
        import torch

        return torch.from_numpy(np.load(self.paths[index]))


class FolderTexts:
    """Texts in files."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(Path(folder).rglob("*.txt"))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.paths)

    def __getitem__(self, index: int) -> str:
        """Return a text."""
        return self.paths[index].read_text()


def make_folder(folder: Path, name: str, scale: float) -> int:
    """Write the files of a data set, if they are not there; return their bytes."""
    count = max(8, int(SETS[name] * scale))
    rng = np.random.default_rng(0)
    suffix = {"photos": ".jpg", "texts": ".txt", "arrays": ".npy"}[name]
    contents = _make_contents(name, rng)
    for number in range(count):
        path = folder / f"part{number // _FILES_OF_A_FOLDER:03d}" / f"{number:06d}{suffix}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents[number % len(contents)])
    return _size(folder)


def _make_contents(name: str, rng: np.random.Generator) -> list[bytes]:
    if name == "texts":
        return [b"word " * int(n) for n in rng.integers(20, 200, 1000)]
    contents: list[bytes] = []
    for _ in range(_N_PICTURES if name == "photos" else 4):
        file = io.BytesIO()
        if name == "photos":
            from PIL import Image

            pixels = rng.integers(0, 255, (_SIDE, _SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file, "JPEG", quality=80)
        else:
            np.save(file, rng.standard_normal(_ARRAY, dtype=np.float32))
        contents.append(file.getvalue())
    return contents


def pack_folder(folder: Path, name: str, kind: str) -> int:
    """Pack a data set by the command line, if it is not packed; return the bytes on disk."""
    target = folder / kind
    if not (target / "packed.json").exists():
        classes = {"texts": "FolderTexts", "arrays": "FolderArrays"}
        plain = folder / "folder"
        source = (
            str(plain)
            if name == "photos"
            else f"benchmarks.packed.material:{classes[name]}({str(plain)!r})"
        )
        command = [sys.executable, "-m", "gapless", "pack", source, str(target), "--to", kind]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return _size(target)


def drop_pages(folder: Path, *, keep: bool) -> None:
    """Have the kernel forget what it holds of files, or read all of them once.

    Pages that a process maps are not forgotten: the readers are processes that have ended.
    """
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            if keep:
                while file.read(1 << 20):
                    pass
            else:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
