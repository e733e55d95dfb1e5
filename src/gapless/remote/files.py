"""Remote files through fsspec, which is imported once the first of them is named.

Credentials may stand in an URL. It travels whole within gapless, and whatever is shown of it goes
through ``errors.mask_secrets``.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from gapless.errors import GaplessError, NotFoundError, RemoteError, mask_secrets

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z0-9+.-]+)*://")
_LOCAL: Final = "file://"
_HOST: Final = re.compile(r"file://[^/]*")
_MAX_WEB_DEPTH: Final = 16  # of folders: a page of the web may link to itself by another name
_PIECE: Final = 16 << 20  # bytes of a request: what is lost where a connection breaks
_MAX_TRIES: Final = 5
_PAUSE_S: Final = 0.2  # before the second try; doubled before each further one
_MAX_WORDS: Final = 200  # characters of what a file system complains of
_PACKAGES: Final = {  # by protocol, where fsspec needs one
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hdfs": "pyarrow",
    "http": "aiohttp",
    "https": "aiohttp",
    "az": "adlfs",
    "abfs": "adlfs",
}
# What changes when a file of the same size does, as file systems name it.
_CONTENTS: Final = re.compile(r"etag|md5|crc32|digest|checksum|generation|version", re.IGNORECASE)
_TIMES: Final = re.compile(r"modified|mtime|created|updated", re.IGNORECASE)


class Place(NamedTuple):
    """A file system of fsspec, which has no types, and the path on it."""

    system: Any
    path: str


def is_url(name: str) -> bool:
    """Return whether a name is that of a remote file, folder or pattern."""
    return _URL.match(name) is not None and not name.startswith(_LOCAL)


def strip_file_url(name: str) -> str:
    """Return the path of a ``file://`` URL; any other name as it is."""
    return unquote(_HOST.sub("", name, count=1)) if name.startswith(_LOCAL) else name


def find_urls(url: str, is_wanted: Callable[[str], object]) -> tuple[str, ...]:
    """List the files at a URL: itself, else those below a folder, or that a pattern matches.

    Of folders and patterns only those whose names are wanted. Raises ``RemoteError`` where the
    place cannot be listed, ``NotFoundError`` where nothing is there.
    """
    with errors_of(url):
        place = open_place(url)
        place.system.invalidate_cache()  # of listings: who asks again wants what is there now
        paths = sorted(_list_paths(place, is_wanted))
    if not paths:
        raise NotFoundError(f"{url}: no trace there (*.json, *.json.gz, *.json.zst …)")
    folder, base = place.path.rstrip("/"), url.rstrip("/")
    protocol = url[: url.index("://") + 3]
    is_below = base.endswith(folder) and len(base) - len(folder) >= len(protocol) - 1
    root = base.removesuffix(folder) if is_below else protocol
    return tuple(path if is_url(path) else root + path for path in paths)


def identify_url(url: str) -> bytes:
    """Return what changes when the file at a URL does; another each time where nothing tells that.

    Raises ``GaplessError``.
    """
    with errors_of(url):
        system, path = open_place(url)
        info: dict[str, object] = system.info(path)
    contents, times = (
        {key: str(info[key]) for key in sorted(info) if pattern.search(key) and info[key]}
        for pattern in (_CONTENTS, _TIMES)
    )
    if not contents and not times:
        return uuid.uuid4().bytes
    parts = urlsplit(url)
    identity = (
        parts.scheme,
        parts.netloc.rpartition("@")[2],
        parts.path,
        "" if contents else parts.query,  # it may be a signature, new each time, or name the file
        info.get("size"),
        contents,
        times,
    )
    return hashlib.sha256(repr(identity).encode()).digest()


def name_in_folder(url: str) -> str:
    """Return the last two names of a URL's path, which may state a rank."""
    names = unquote(urlsplit(url).path).strip("/").split("/")[-2:]
    return "/".join(name for name in names if name.strip(".")) or "trace.json"


@contextmanager
def local_file(name: str) -> Generator[Path]:
    """Yield the file of a name: a remote one is fetched, and removed afterwards.

    Errors name the file as the caller did. Raises ``GaplessError`` where it cannot be had whole.
    """
    if not is_url(name):
        yield Path(name)
        return
    with TemporaryDirectory(prefix="gapless-") as folder:
        copy = Path(folder, "remote", name_in_folder(name))
        with errors_of(name):
            copy.parent.mkdir(parents=True)
            place = open_place(name)
        copy_file(name, place, copy)
        try:
            yield copy
        except GaplessError as error:
            raise type(error)(str(error).replace(str(copy), name)) from error


def copy_file(url: str, place: Place, target: Path) -> None:
    """Copy a remote file; where the connection breaks, go on from there.

    Errors name ``url``. Raises ``GaplessError``.
    """
    failure: Exception | None = None
    with errors_of(url), target.open("wb") as file:
        size: int | None = place.system.info(place.path).get("size")
        for count in range(_MAX_TRIES):
            time.sleep(_PAUSE_S * (2**count - 1))
            failure = _copy_rest(place, file)
            if failure is None and size in (None, file.tell()):
                return
        total = "an unknown number of" if size is None else f"{size:,}"
        cause = "the connection ended" if failure is None else _describe(failure)
        raise RemoteError(f"{url}: cut after {file.tell():,} of {total} bytes: {cause}")


def _copy_rest(place: Place, file: IO[bytes]) -> Exception | None:
    """Append what is not there yet; return what ended it before the end."""
    try:
        with place.system.open(place.path, "rb", cache_type="none") as source:
            try:
                source.seek(file.tell())
            except ValueError:  # a server that cannot begin in the middle
                file.seek(0)
                file.truncate()
            while piece := source.read(_PIECE):
                file.write(piece)
    except (FileNotFoundError, PermissionError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001  whatever a file system breaks off with
        return error
    return None


def open_place(url: str) -> Place:
    """Return the file system of an URL, and the path on it; raises what fsspec does."""
    fsspec = cast("Any", import_module("fsspec"))  # not needed for files of this machine
    return Place(*fsspec.url_to_fs(url))


def _list_paths(place: Place, is_wanted: Callable[[str], object]) -> list[str]:
    system, path = place
    is_web = is_url(path)  # paths of http(s), where "?" begins a query and only "/" ends a folder
    if any(sign in path for sign in ("*[" if is_web else "*?[")) and not system.exists(path):
        info_by_path: dict[str, dict[str, Any]] = system.glob(path, detail=True)
        folders = [name for name, info in info_by_path.items() if info["type"] == "directory"]
        files = [name for name in info_by_path if name not in folders]
    elif path.endswith("/") if is_web else system.info(path)["type"] == "directory":
        folders, files = [path], list[str]()
    else:
        return [path]
    depth = {"maxdepth": _MAX_WEB_DEPTH} if is_web else {}  # without it, buckets list at once
    names = {*files, *(name for folder in folders for name in system.find(folder, **depth))}
    return [name for name in names if is_wanted(name)]


@contextmanager
def errors_of(url: str) -> Generator[None]:
    """Say of what fails in a file system which URL it was about. Raises ``GaplessError``."""
    try:
        yield
    except GaplessError:
        raise
    except FileNotFoundError as error:
        cause = error.__cause__  # of the web: it could not be asked
        reason = "" if cause is None else f": {_describe(cause)}"
        raise NotFoundError(f"{url}: no such file or folder{reason}") from error
    except ImportError as error:
        raise RemoteError(f"{url}: {_describe(error)}; {_install_command(url)}") from error
    except Exception as error:  # whatever a file system raises
        raise RemoteError(f"{url}: {_describe(error)}") from error


def check_packages(url: str) -> None:
    """Raise ``RemoteError`` if a package is missing that an URL needs; nothing is imported."""
    for package in ("fsspec", _package_of(url)):
        if package and find_spec(package) is None:
            raise RemoteError(f"{url}: {package} is not installed; {_install_command(url)}")


def _install_command(url: str) -> str:
    return f"pip install 'gapless[remote]' {_package_of(url)}".rstrip()


def _package_of(url: str) -> str:
    return _PACKAGES.get(url.split("://", maxsplit=1)[0].rpartition("::")[2], "")


def _describe(error: BaseException) -> str:
    words = mask_secrets(" ".join(str(error).split())) or type(error).__name__
    return words if len(words) <= _MAX_WORDS else f"{words[:_MAX_WORDS]}…"
