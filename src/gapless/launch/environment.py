"""What the command finds in its environment: the way to the recorder, and nothing else of ours."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gapless import wire

SITE: Final = Path(__file__).resolve().parents[1] / "payload" / "site"
_MEMORY: Final = "/dev/shm"  # noqa: S108 - where the disk for temporary files is full
_KINETO: Final = "KINETO_LOG_LEVEL"  # else each window prints two lines among the training's


@dataclass(frozen=True)
class Settings:
    """What the recorder is asked for; the names are those of ``GAPLESS_OPTIONS``."""

    windows: bool = True
    window_steps: int = 6
    every: int | None = None
    most_windows: int = 6
    events: int = 100_000
    stacks_hz: int = 10
    random_every: int = 64
    check: bool = False
    light: bool = True


def environment(old: Mapping[str, str], spool: Path, settings: Settings) -> dict[str, str]:
    """Give the environment of the command: the old one, and the way to the recorder."""
    paths = [path for path in old.get("PYTHONPATH", "").split(os.pathsep) if path != str(SITE)]
    kept = os.pathsep.join(paths)
    return {
        _KINETO: "99",
        **old,
        "PYTHONPATH": f"{SITE}{os.pathsep}{kept}" if kept else str(SITE),
        wire.SPOOL: str(spool),
        wire.OPTIONS: json.dumps(vars(settings), separators=(",", ":")),
    }


def make_spool() -> Path:
    """Give a new folder on a local disk, for this user alone. Raises ``OSError``."""
    try:
        return Path(tempfile.mkdtemp(prefix="gapless-spool-"))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="gapless-spool-", dir=_MEMORY))
