"""Folders of runs, brought to a remote place and back."""

import re
import time
from hashlib import sha256
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Final

from gapless import wire
from gapless.errors import NotFoundError
from gapless.remote.files import copy_file, errors_of, open_place

_COPY_NAME: Final = re.compile("[0-9a-f]{12}")
_MAX_COPY_AGE_S: Final = 30 * 24 * 3600  # since it was asked for last


def upload_folder(folder: Path, url: str, name: str) -> str:
    """Copy a run's folder into the one at an URL, under a name; return its URL.

    The manifest comes last: what was cut short is no run. Raises ``RemoteError``.
    """
    target = f"{url.rstrip('/')}/{name}"
    with errors_of(target):
        system, path = open_place(target)
        files = sorted(folder.rglob("*"))
        for file in sorted(files, key=lambda file: file == folder / wire.MANIFEST):
            if file.is_file():
                remote_path = PurePosixPath(path, *file.relative_to(folder).parts)
                system.makedirs(str(remote_path.parent), exist_ok=True)
                system.put_file(str(file), str(remote_path))
    return target


def fetch_copy(url: str, home: Path) -> Path:
    """Return the copy below ``home`` of the runs at an URL, with what is new there.

    Copies that nobody has asked for in 30 days are removed. Raises ``GaplessError``.
    """
    copy = home / sha256(url.encode()).hexdigest()[:12]
    fetch_folder(url, copy)
    copy.touch()
    oldest_s = time.time() - _MAX_COPY_AGE_S
    for folder in home.iterdir():
        if _COPY_NAME.fullmatch(folder.name) and folder.lstat().st_mtime < oldest_s:
            rmtree(folder, ignore_errors=True)  # refuses links
    return copy


def fetch_folder(url: str, target: Path) -> None:
    """Copy all runs below an URL into a folder; what is there in the same size is left as it is.

    Nothing else is fetched, and nothing written elsewhere, whatever names the place lists.
    Raises ``GaplessError``.
    """
    with errors_of(url):
        place = open_place(url)
        place.system.invalidate_cache()
        if place.system.info(place.path)["type"] != "directory":
            raise NotADirectoryError("is a file, not a folder")
        sizes = {
            PurePosixPath(path).relative_to(place.path): (path, info.get("size"))
            for path, info in place.system.find(place.path, detail=True).items()
        }
        runs = {name.parent for name in sizes if name.name == wire.MANIFEST}
        if not runs:
            raise NotFoundError(f"{url}: no run there")
        for name, (path, size) in sizes.items():
            if ".." in name.parts or runs.isdisjoint(name.parents):
                continue
            file = target / name
            if file.is_file() and file.stat().st_size == size:
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            copy_file(url, place._replace(path=path), file)
