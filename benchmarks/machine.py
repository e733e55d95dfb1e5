"""The machine, kernel and versions that a result was measured with."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path

import psutil

PACKAGES = ("gapless", "numpy", "msgspec", "isal", "zstandard", "rich", "psutil")


def processor() -> str:
    """Name the processor as Linux does, else as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((one.split(":", 1)[1].strip() for one in lines if one.startswith("model name")), "")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Give the versions of packages in this interpreter; ``None`` for those that are not there."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


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


def keep(result: object, out: Path | None) -> str:
    """Give a result as JSON, written to a file, too, if one is asked for."""
    text = json.dumps(result, indent=1)
    if out is not None:
        out.write_text(text + "\n")
    return text
