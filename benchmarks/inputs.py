"""The big traces of the reading benchmark: made where missing, described for the result."""

import gzip
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import make_big_trace as maker

RANK_MEGABYTES = 20
_PEERS = ("HolisticTraceAnalysis", "torch-tb-profiler", "pandas", "numpy")
_VERSIONS = """
import json, platform, sys
from importlib import metadata
found = {package: metadata.version(package) for package in sys.argv[1:]}
print(json.dumps({"python": platform.python_version(), **found}))
"""


@dataclass(frozen=True)
class Input:
    """A big trace: its name, size as it lies there, size and entries when unpacked."""

    name: str
    compressed_bytes: int
    bytes: int
    entries: int


def _is_missing(path: Path, base: Path | None) -> bool:
    if path.exists():
        return False
    if base is None:
        message = f"{path} is not there; name the base that it is made from"
        raise SystemExit(message)
    return True


def big_trace(folder: Path, form: str, megabytes: int, base: Path | None) -> Path:
    """Return the big trace of a form ("rich", "plain") and size, made from the base if missing."""
    path = folder / f"{form}-{megabytes}.json.gz"
    if _is_missing(path, base) and base is not None:
        folder.mkdir(parents=True, exist_ok=True)
        maker.make_traces(base, [(path, 0)], maker.Growth(megabytes, rich=form == "rich"))
    return path


def rank_folder(folder: Path, count: int, base: Path | None) -> Path:
    """Return a folder of so many ranks, made from the base if missing."""
    target = folder / f"ranks-{count}"
    if _is_missing(target, base) and base is not None:
        target.mkdir(parents=True)
        outputs = [(target / f"rank{rank}.json.gz", rank) for rank in range(count)]
        maker.make_traces(base, outputs, maker.Growth(RANK_MEGABYTES, world=count))
    return target


def warm(path: Path) -> None:
    """Read a file, so that every subject finds it in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def describe_inputs(folder: Path) -> list[Input]:
    """Describe the big traces that lie in a folder."""
    return [_describe(path) for path in sorted(folder.glob("*-*.json.gz"))]


def _describe(path: Path) -> Input:
    length = entries = 0
    end = b""
    with gzip.open(path) as file:
        while chunk := file.read(1 << 24):
            length += len(chunk)
            entries += (end + chunk).count(b'"ph": ')
            end = chunk[-5:]  # shorter than what is looked for: nothing is counted twice
    return Input(path.name, path.stat().st_size, length, entries)


def peer_versions(python: str | None) -> dict[str, str] | None:
    """Return the versions of the peers in their Python; ``None`` if they are not measured."""
    if python is None:
        return None
    process = subprocess.run(
        [python, "-c", _VERSIONS, *_PEERS], capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)
