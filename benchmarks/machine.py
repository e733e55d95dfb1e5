"""The machine, kernel and versions that a result was measured with."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import cast

import psutil

_DIGITS = 7  # of a number in a result
PACKAGES = ("gapless", "numpy", "msgspec", "isal", "zstandard", "rich", "psutil")


def processor() -> str:
    """Name the processor as Linux does, else as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), ""
    )


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Return the versions of packages in this interpreter; ``None`` for absent ones."""
    by_package: dict[str, str | None] = {}
    for package in packages:
        try:
            by_package[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            by_package[package] = None
    return by_package


def machine() -> dict[str, object]:
    """Describe what the figures depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "packages": versions(),
    }


def write_result(result: object, out: Path | None) -> str:
    """Return a result as JSON, written to a file, too, if one is asked for (there on one line)."""
    result = _shorten(result)
    if out is not None:
        out.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    return json.dumps(result, indent=1)


def _shorten(value: object) -> object:
    """Return a result without the digits that no measurement has."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _shorten(part) for name, part in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_shorten(part) for part in cast("list[object]", value)]
    return value
