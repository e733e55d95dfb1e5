"""What a recorded training touches that a private view of its working folder does not cover.

Files elsewhere, object stores, other machines: a trial runs the training again, several times, and
what it does there is real. It needs the user's word (``--allow-writes PATH``, or ``--yes``).
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gapless.launch import sandbox
from gapless.model.recording import Host, Recording

_SCHEMES: Final = (
    "s3|s3a|r2|gs|gcs|az|abfss?|adl|wasbs?|oss|cos|obs|hdfs|webhdfs|dbfs|hf|s?ftp|https?"
)
_STORE: Final = re.compile(rf"(?:.*/)?({_SCHEMES}):/{{1,2}}(?!/)(.+)")
_SYSTEMS: Final = ("/dev", "/proc", "/sys", "/run")
_CACHES: Final = {  # what any run may write, by the variable that names it
    "XDG_CACHE_HOME": "~/.cache",
    "HF_HOME": "~/.cache/huggingface",
    "TORCH_HOME": "~/.cache/torch",
    "TORCHINDUCTOR_CACHE_DIR": "~/.cache/torch",
    "TRITON_CACHE_DIR": "~/.triton",
    "CUDA_CACHE_PATH": "~/.nv",
    "MPLCONFIGDIR": "~/.config/matplotlib",
    "WANDB_CONFIG_DIR": "~/.config/wandb",
}
_PORTS: Final = {
    22: "ssh",
    80: "http",
    443: "https",
    1883: "mqtt",
    2049: "nfs",
    3306: "mysql",
    5000: "mlflow, by its usual port",
    5432: "postgresql",
    6379: "redis",
    8008: "clearml, by its usual port",
    8080: "http",
    9000: "an object store, by its usual port",
    9092: "kafka",
    27017: "mongodb",
    29500: "torch.distributed, by its usual port",
}
_FOLDERS: Final = 12  # as many are named; beyond, those above them


@dataclass(frozen=True)
class Outside:
    """What a training touches: in its working folder, and elsewhere."""

    folder: Path  # working folder
    inside: tuple[str, ...]  # files written there: real ones where no view covers them
    paths: tuple[str, ...]  # files written elsewhere, but for temporary ones and caches
    stores: tuple[str, ...]  # URLs written to
    hosts: tuple[Host, ...]
    unknown: tuple[str, ...]  # what was not observed, in words


def touched(recording: Recording, environment: Mapping[str, str] = os.environ) -> Outside:
    """Give what a recorded run wrote and talked to, by where it is."""
    folder = Path(os.path.realpath(recording.manifest.folder or "."))
    written = dict.fromkeys(
        path for one in recording.processes for path in (*one.written, *one.exported)
    )
    stores = dict.fromkeys(url for path in written if (url := _url(path)) is not None)
    real = dict.fromkeys(os.path.realpath(path) for path in written if _url(path) is None)
    through = sandbox.uncovered(folder)
    inside = [path for path in real if _under(path, [folder]) and not _under(path, through)]
    scratch = [*_scratch(environment), Path(recording.path).resolve()]
    private = {*inside, *(path for path in real if _under(path, scratch))}
    return Outside(
        folder=folder,
        inside=tuple(inside),
        paths=tuple(path for path in real if path not in private),
        stores=tuple(stores),
        hosts=recording.samples.hosts or (),
        unknown=tuple(_unknown(recording)),
    )


def nothing_known(folder: Path) -> Outside:
    """Give what is known of a command that was never recorded."""
    unknown = ("files and hosts that nobody knows before it was recorded (gapless run)",)
    return Outside(folder.resolve(), (), (), (), (), unknown)


def needs_permission(
    outside: Outside, allowed: Collection[Path], *, sandboxed: bool
) -> tuple[str, ...]:
    """Give what no permission was given for: folders, URLs, hosts, and what is not known.

    ``allowed``: folders and files, URLs, or hosts ("10.0.0.7" or "10.0.0.7:443"); each permits
    what is below it. What is not known only ``--yes`` permits.
    """
    permitted = {str(one) for one in allowed}  # a Path, so of a URL's two slashes one is left
    folders = [Path(os.path.realpath(one)) for one in allowed]
    paths = [path for path in outside.paths if not _under(path, folders)]
    needed = [*common_folders(paths)]
    if not sandboxed and not _under(str(outside.folder), folders):
        needed.insert(0, str(outside.folder))
    needed += [url for url in outside.stores if not _url_under(url, permitted)]
    for one in outside.hosts:
        if not permitted & {one.address, _address(one)}:
            needed.append(f"{_address(one)} ({meaning(one)})")
    return (*needed, *outside.unknown)


def told(outside: Outside, *, why_no_view: str | None) -> tuple[str, ...]:
    """Give the sentences that tell, before the first arm, what of the arms' doing is real."""
    folder = outside.folder
    if why_no_view is None:
        first = f"Arms write to a private copy of {folder}, which is thrown away."
    else:
        first = f"Arms write to {folder} itself: there is no private view of it ({why_no_view})."
    return (first, *_elsewhere(outside))


def refusal(needed: Collection[str]) -> tuple[str, ...]:
    """Give the sentences that refuse a trial, and the way out; none if nothing is needed."""
    if not needed:
        return ()
    paths = [one for one in needed if one.startswith("/")]
    flags = " ".join(f"--allow-writes {one}" for one in paths)
    return (
        f"not started: a trial runs the command several times, and may touch {', '.join(needed)}",
        f"allow it with {flags + ', or all of it with ' if flags else ''}--yes",
    )


def meaning(host: Host) -> str:
    """Give what a port usually means, and which program it was that talked to it."""
    port = _PORTS.get(host.port)
    who = f"by {host.program}" if host.program else None
    return ", ".join(one for one in (port, who) if one) or "a port of no usual meaning"


def common_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """Give the folders that files lie in: none below another, and at most a dozen of them."""
    folders = {Path(path).parent for path in paths}
    while len(folders := _outermost(folders)) > _FOLDERS:
        deepest = max(len(one.parts) for one in folders)
        if deepest <= 2:  # noqa: PLR2004 - not the root of everything
            break
        folders = {one.parent if len(one.parts) == deepest else one for one in folders}
    return tuple(sorted(map(str, folders)))


def _outermost(folders: Collection[Path]) -> set[Path]:
    return {one for one in folders if not any(above in folders for above in one.parents)}


def _elsewhere(outside: Outside) -> Iterator[str]:
    if outside.paths:
        counts = Counter(_folder_of(path, outside.paths) for path in outside.paths)
        places = (f"{folder} ({number})" for folder, number in sorted(counts.items()))
        yield f"The recorded run wrote files elsewhere, which is not covered: {', '.join(places)}."
    if outside.stores:
        yield f"It wrote to {', '.join(outside.stores)}: what is sent there stays."
    if outside.hosts:
        hosts = (f"{_address(one)} ({meaning(one)})" for one in outside.hosts)
        yield f"It had connections to {', '.join(hosts)}: what is sent there stays."
    if outside.unknown:
        yield f"Not observed: {'; '.join(outside.unknown)}."
    yield (
        "A file that was open for a few seconds only, or that another program wrote, may be "
        "missing here, and so may a connection that lasted less than a second."
    )


def _folder_of(path: str, paths: Iterable[str]) -> str:
    return next(one for one in common_folders(paths) if _under(path, [Path(one)]))


def _address(host: Host) -> str:
    return f"[{host.address}]:{host.port}" if ":" in host.address else f"{host.address}:{host.port}"


def _url(path: str) -> str | None:
    """Give the URL that a path is; of one that was taken for a file's name a slash is lost."""
    found = _STORE.fullmatch(path)
    return None if found is None else f"{found[1]}://{found[2]}"


def _url_under(url: str, permitted: Iterable[str]) -> bool:
    return any(f"{Path(url)}/".startswith(f"{one}/") for one in permitted)


def _under(path: str, folders: Iterable[Path]) -> bool:
    one = Path(path)
    return any(folder == one or folder in one.parents for folder in folders)


def _scratch(environment: Mapping[str, str]) -> Iterator[Path]:
    """Give where anything may be written: temporary files, the system's own, caches."""
    yield Path(os.path.realpath(tempfile.gettempdir()))
    yield from map(Path, _SYSTEMS)
    for name, usual in _CACHES.items():
        yield Path(os.path.realpath(environment.get(name) or os.path.expanduser(usual)))  # noqa: PTH111


def _unknown(recording: Recording) -> Iterator[str]:
    noted = {one.what: one.why for one in (*recording.unseen, *recording.samples.unseen)}
    for process in recording.processes:
        noted.update({one.what: one.why for one in process.unseen})
    if not recording.processes:
        yield "what it writes (no process was recorded)"
    yield from (f"{what} ({why})" for what, why in noted.items() if what.startswith("files"))
    if "hosts" in noted:
        yield f"whom it talks to ({noted['hosts']})"
    elif recording.samples.hosts is None:
        yield "whom it talks to"
