"""Folders of runs, brought to a remote place and back."""

from pathlib import Path, PurePosixPath

from gapless import wire
from gapless.errors import NotFoundError
from gapless.remote.files import copy_file, errors_of, open_place


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
