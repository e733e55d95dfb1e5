"""What a recorded training touches that a private view of its working folder does not cover.

Files elsewhere, object stores, other machines: a trial runs the training again, several times, and
what it does there is real. It needs the user's word (``--allow-writes PATH``, or ``--yes``).
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.launch.trial import sandbox
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
_MAX_FOLDERS: Final = 12  # as many are named; beyond, those above them


class SideEffects(Struct, frozen=True):
    """What a training touches: in its working folder, and elsewhere."""

    folder: Path  # working folder
    inside: tuple[str, ...]  # files written there: real ones where no view covers them
    paths: tuple[str, ...]  # files written elsewhere, but for temporary ones and caches
    stores: tuple[str, ...]  # URLs written to
    hosts: tuple[Host, ...]
    unobserved: tuple[str, ...]  # what was not observed, in words


def find_side_effects(recording: Recording) -> SideEffects:
    """Return what a recorded run wrote and talked to, by where it is."""
    folder = Path(os.path.realpath(recording.manifest.folder or "."))
    written_paths = dict.fromkeys(
        path for process in recording.processes for path in (*process.written, *process.exported)
    )
    stores = dict.fromkeys(url for path in written_paths if (url := _url(path)) is not None)
    real = dict.fromkeys(os.path.realpath(path) for path in written_paths if _url(path) is None)
    mounts = sandbox.find_uncovered(folder)
    inside = [path for path in real if _under(path, [folder]) and not _under(path, mounts)]
    scratch = [*_scratch(), Path(recording.path).resolve()]
    covered = {*inside, *(path for path in real if _under(path, scratch))}
    return SideEffects(
        folder=folder,
        inside=tuple(inside),
        paths=tuple(path for path in real if path not in covered),
        stores=tuple(stores),
        hosts=recording.samples.hosts or (),
        unobserved=tuple(_list_unobserved(recording)),
    )


def assume_unobserved(folder: Path) -> SideEffects:
    """Return what is known of a command that was never recorded."""
    unobserved = ("files and hosts that nobody knows before it was recorded (gapless run)",)
    return SideEffects(folder.resolve(), (), (), (), (), unobserved)


def find_unpermitted(
    effects: SideEffects, allowed: Collection[Path], *, sandboxed: bool
) -> tuple[str, ...]:
    """Return what no permission was given for: folders, URLs, hosts, and what is not known.

    ``allowed``: folders and files, URLs, or hosts ("10.0.0.7" or "10.0.0.7:443"); each permits
    what is below it. What is not known only ``--yes`` permits.
    """
    # a Path, so of a URL's two slashes one is left
    permissions = {str(permission) for permission in allowed}
    folders = [Path(os.path.realpath(permission)) for permission in allowed]
    paths = [path for path in effects.paths if not _under(path, folders)]
    requests = [*common_folders(paths)]
    if not sandboxed and not _under(str(effects.folder), folders):
        requests.insert(0, str(effects.folder))
    requests += [url for url in effects.stores if not _url_under(url, permissions)]
    for host in effects.hosts:
        if not permissions & {host.address, _address(host)}:
            requests.append(f"{_address(host)} ({describe_port(host)})")
    return (*requests, *effects.unobserved)


def describe_side_effects(effects: SideEffects, *, why_no_view: str | None) -> tuple[str, ...]:
    """Return the sentences that say, before the first arm, which effects of the arms are real."""
    folder = effects.folder
    if why_no_view is None:
        sentence = f"Arms write to a private copy of {folder}, which is thrown away."
    else:
        sentence = f"Arms write to {folder} itself: there is no private view of it ({why_no_view})."
    return (sentence, *_describe_elsewhere(effects))


def refusal(requests: Collection[str]) -> tuple[str, ...]:
    """Return the sentences that refuse a trial, and the way out; none if nothing is needed."""
    if not requests:
        return ()
    paths = [target for target in requests if target.startswith("/")]
    flags = " ".join(f"--allow-writes {path}" for path in paths)
    return (
        f"not started: a trial runs the command several times, and may touch {', '.join(requests)}",
        f"allow it with {flags + ', or all of it with ' if flags else ''}--yes",
    )


def describe_port(host: Host) -> str:
    """Return what a port usually means, and which program it was that talked to it."""
    port = _PORTS.get(host.port)
    program = f"by {host.program}" if host.program else None
    return (
        ", ".join(meaning_text for meaning_text in (port, program) if meaning_text)
        or "a port of no usual meaning"
    )


def common_folders(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that files lie in: none below another, and at most a dozen of them."""
    folders = {Path(path).parent for path in paths}
    while len(folders := _outermost(folders)) > _MAX_FOLDERS:
        deepest = max(len(folder.parts) for folder in folders)
        if deepest <= 2:  # noqa: PLR2004 - not the root of everything
            break
        folders = {folder.parent if len(folder.parts) == deepest else folder for folder in folders}
    return tuple(sorted(map(str, folders)))


def _outermost(folders: Collection[Path]) -> set[Path]:
    return {folder for folder in folders if not any(above in folders for above in folder.parents)}


def _describe_elsewhere(effects: SideEffects) -> Iterator[str]:
    if effects.paths:
        counts = Counter(_folder_of(path, effects.paths) for path in effects.paths)
        folders = (f"{folder} ({number})" for folder, number in sorted(counts.items()))
        yield f"The recorded run wrote files elsewhere, which is not covered: {', '.join(folders)}."
    if effects.stores:
        yield f"It wrote to {', '.join(effects.stores)}: what is sent there stays."
    if effects.hosts:
        hosts = (f"{_address(host)} ({describe_port(host)})" for host in effects.hosts)
        yield f"It had connections to {', '.join(hosts)}: what is sent there stays."
    if effects.unobserved:
        yield f"Not observed: {'; '.join(effects.unobserved)}."
    yield (
        "A file that was open for a few seconds only, or that another program wrote, may be "
        "missing here, and so may a connection that lasted less than a second."
    )


def _folder_of(path: str, paths: Iterable[str]) -> str:
    return next(folder for folder in common_folders(paths) if _under(path, [Path(folder)]))


def _address(host: Host) -> str:
    return f"[{host.address}]:{host.port}" if ":" in host.address else f"{host.address}:{host.port}"


def _url(path: str) -> str | None:
    """Return the URL that a path is; of one that was taken for a file's name a slash is lost."""
    match = _STORE.fullmatch(path)
    return None if match is None else f"{match[1]}://{match[2]}"


def _url_under(url: str, permissions: Iterable[str]) -> bool:
    return any(f"{Path(url)}/".startswith(f"{prefix}/") for prefix in permissions)


def _under(path: str, folders: Iterable[Path]) -> bool:
    file = Path(path)
    return any(folder == file or folder in file.parents for folder in folders)


def _scratch() -> Iterator[Path]:
    """Yield where anything may be written: temporary files, the system's own, caches."""
    yield Path(os.path.realpath(tempfile.gettempdir()))
    yield from map(Path, _SYSTEMS)
    for name, usual in _CACHES.items():
        yield Path(os.path.realpath(os.environ.get(name) or os.path.expanduser(usual)))  # noqa: PTH111


def _list_unobserved(recording: Recording) -> Iterator[str]:
    reasons = {gap.what: gap.why for gap in (*recording.unobserved, *recording.samples.unobserved)}
    for process in recording.processes:
        reasons.update({gap.what: gap.why for gap in process.unobserved})
    if not recording.processes:
        yield "what it writes (no process was recorded)"
    yield from (
        f"{subject} ({why})" for subject, why in reasons.items() if subject.startswith("files")
    )
    if "hosts" in reasons:
        yield f"whom it talks to ({reasons['hosts']})"
    elif recording.samples.hosts is None:
        yield "whom it talks to"
