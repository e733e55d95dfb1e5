"""The training scripts of others: which, by commit and SHA-256, and how each is laid out to run.

Their text is never kept here: it is downloaded, or read from local clones, when it is asked for.
"""

import hashlib
import importlib.util
import re
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.planted.healing import heal_script

LIST: Final = Path(__file__).with_name("scripts.toml")
SEALED: Final = Path(__file__).with_name("sealed.toml")  # of the unseen half
STANDINS: Final = Path(__file__).with_name("standins")
_UNCHECKED_PICTURES: Final = (
    b"import torchvision\n"
    b"torchvision.datasets.CIFAR10._check_integrity = lambda self: True\n"
    b'torchvision.datasets.CIFAR10.meta["md5"] = None\n'
)
_RAW: Final = "https://raw.githubusercontent.com/{repo}/{commit}/{path}"


class FetchError(Exception):
    """A file of a script cannot be had, or is another than the one that is meant."""


@dataclass(frozen=True)
class Patch:
    """A piece of a file that is replaced before anything else, and how often it must occur.

    With ``until`` what is replaced goes on to where that follows; ``$`` is the end of the file.
    """

    file: str
    old: str
    new: str = ""
    count: int = 1
    until: str = ""

    def apply(self, data: bytes) -> bytes:
        """Return a file with the piece replaced. Raises ``FetchError`` where counts differ."""
        old, new, until = self.old.encode(), self.new.encode(), self.until.encode()
        times = data.count(old)
        if times != self.count:
            raise FetchError(f"{self.file} holds {self.old!r} {times} times, not {self.count}")
        if not until:
            return data.replace(old, new)
        begin = data.index(old)
        end = len(data) if until == b"$" else data.find(until, begin + len(old))
        if end < 0:
            raise FetchError(f"{self.file} holds no {self.until!r} behind {self.old!r}")
        return data[:begin] + new + data[end:]


@dataclass(frozen=True)
class Script:
    """One training: its files, its command line, the data it expects."""

    name: str
    repo: str
    commit: str
    entry: str
    files: Mapping[str, str]  # path in the repository: SHA-256, or half of it
    cwd: str = ""
    arguments: tuple[str, ...] = ()
    on_gpu: tuple[str, ...] | None = None  # arguments there; None: the same
    targets: tuple[str, ...] = ()  # files that faults may be planted in; none: the entry
    needs: tuple[str, ...] = ()  # modules without which it does not run
    data: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # folders that its users have on PYTHONPATH
    devices: tuple[str, ...] = ("cpu", "cuda")
    mended: tuple[Patch, ...] = field(default=())
    sealed: bool = False  # of the unseen half

    def command(self, device: str) -> tuple[str, ...]:
        """Return what follows the interpreter on a command line in the working directory."""
        arguments = self.arguments if device == "cpu" or self.on_gpu is None else self.on_gpu
        return (self.entry.removeprefix(f"{self.cwd}/") if self.cwd else self.entry, *arguments)

    @property
    def planted_in(self) -> tuple[str, ...]:
        """Return the files that faults may be planted in."""
        return self.targets or (self.entry,)


@cache
def scripts() -> Mapping[str, Script]:
    """Read both lists."""
    return {
        row["name"]: _script(row | {"sealed": path == SEALED})
        for path in (LIST, SEALED)
        for row in tomllib.loads(path.read_text(encoding="utf-8")).get("script", ())
    }


def _script(row: Mapping[str, Any]) -> Script:
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    plain["mended"] = tuple(
        Patch(**{"file": row["entry"], **patch}) for patch in row.get("mended", ())
    )
    return Script(**plain)


def missing_modules(script: Script) -> tuple[str, ...]:
    """List the modules that a script needs and that are neither here nor have a stand-in."""
    stand_ins = {path.stem for path in STANDINS.iterdir()}
    return tuple(
        name for name in script.needs if not _is_importable(name) and name not in stand_ins
    )


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it is a part of is not there either
        return False


def content(script: Script, path: str, sources: Path | None) -> bytes:
    """Return the bytes of a file. Raises ``FetchError`` if they are not those of its SHA-256."""
    data = _download(script, path) if sources is None else _read_local(script, path, sources)
    digest = hashlib.sha256(data).hexdigest()
    if not digest.startswith(script.files[path]):
        raise FetchError(
            f"{script.repo}/{path} at {script.commit[:12]} has other bytes: SHA-256 {digest[:16]}…,"
            f" not {script.files[path][:16]}…"
        )
    return data


def _download(script: Script, path: str) -> bytes:
    address = _RAW.format(repo=script.repo, commit=script.commit, path=path)
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310  https
            return answer.read()
    except OSError as error:
        raise FetchError(f"{address} cannot be read: {error}") from error


def _read_local(script: Script, path: str, sources: Path) -> bytes:
    """Read from ``SOURCES/owner/name/path``, or from a git directory ``SOURCES/owner+name``."""
    plain = sources / script.repo / path
    if plain.exists():
        return plain.read_bytes()
    clone = sources / script.repo.replace("/", "+") / "repo"
    if (clone / ".git").exists():
        clone /= ".git"
    process = subprocess.run(
        ["git", "--git-dir", clone, "show", f"{script.commit}:{path}"],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if process.returncode:
        raise FetchError(f"{script.repo}/{path} is not below {sources}")
    return process.stdout


def lay_out(script: Script, folder: Path, sources: Path | None) -> None:
    """Write the files of a script below a folder, mended. Raises ``FetchError``."""
    for path in script.files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(mend_file(script, path, content(script, path, sources)))


def mend_file(script: Script, path: str, data: bytes) -> bytes:
    """Return a file with the declared pieces replaced, healed if faults may be planted in it.

    Raises ``FetchError`` where counts differ.
    """
    for patch in script.mended:
        if patch.file == path:
            data = patch.apply(data)
    if path == script.entry and any(made.startswith("cifar10:") for made in script.data):
        data = _accept_made_pictures(data)
    return heal_script(data.decode()).encode() if path in script.planted_in else data


def _accept_made_pictures(data: bytes) -> bytes:
    """Return an entry under which torchvision takes pictures that were made for the originals.

    Their checksums differ, so that it would download them. Entries that say so already stay.
    """
    if b"_check_integrity" in data:
        return data
    return re.sub(rb"^import ", _UNCHECKED_PICTURES + b"import ", data, count=1, flags=re.MULTILINE)


def carry(owners: Iterable[Script], sources: Path, target: Path) -> int:
    """Copy the files of scripts from local clones into a folder; give their number."""
    number = 0
    for script in owners:
        for path in script.files:
            copy_path = target / script.repo / path
            copy_path.parent.mkdir(parents=True, exist_ok=True)
            copy_path.write_bytes(content(script, path, sources))
            number += 1
    return number
