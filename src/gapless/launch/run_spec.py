"""What is asked for: the command, and what to record of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gapless.launch.environment import RecorderSettings


@dataclass(frozen=True)
class RunSpec:
    """What to run, where its records go, and what is asked of the recorder."""

    command: tuple[str, ...]
    out: Path | None = None
    settings: RecorderSettings = field(default_factory=RecorderSettings)
    seconds: float | None = None  # ``gapless check``: without a window; else as long as steps need
    report_progress: Callable[[str], None] | None = None  # of ``gapless check``: that it takes long
    # Called with the run folder and a function that returns whether the command still runs.
    on_first_window: Callable[[Path, Callable[[], bool]], None] | None = None
    on_idle: Callable[[], object] | None = None  # called once, when there is time
