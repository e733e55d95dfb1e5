"""What is asked for: the command, and what to record of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gapless.launch.environment import Settings


@dataclass(frozen=True)
class Order:
    """What to run, where its records go, and what is asked of the recorder."""

    command: tuple[str, ...]
    out: Path | None = None
    settings: Settings = field(default_factory=Settings)
    seconds: float | None = None  # of ``check``: without a window; else as long as steps need
    tell: Callable[[str], None] | None = None  # of ``check``: that it takes long
    # Called with the run folder and with what tells whether the command still runs.
    first_window: Callable[[Path, Callable[[], bool]], None] | None = None
    meanwhile: Callable[[], object] | None = None  # called once, when there is time
