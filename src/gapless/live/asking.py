"""Ask the recorder of a watched run for a window now."""

import math
import platform
from pathlib import Path
from typing import Final

from gapless.live.view import RunView
from gapless.store.run import manifest
from gapless.store.run.manifest import RUNNING, ManifestDocument
from gapless.store.run.requests import ask_for_window as write_request

_LEAD_NS: Final = 2 * 10**9  # until all ranks have seen what is asked: they look ten times a second
_LEAD_STEPS: Final = 3


def ask_for_window(run: RunView | None) -> tuple[str, bool]:
    """Ask for a window; return a sentence about it, and whether it was asked for."""
    if run is None:
        return "no run is watched: there is nothing to ask", False
    document = manifest.peek(Path(run.path))
    reason = _obstacle(run, document)
    if reason is not None or document.spool is None:
        return reason or "the run is over: there will be no window", False
    step = (run.steps or 0) + _LEAD_STEPS + _steps_in_lead(run)
    try:
        write_request(document.spool, step)
    except OSError as error:
        return f"it cannot be asked for: {error.strerror}: {document.spool}", False
    time_words = f" after step {step:,}" if len(run.ranks) > 1 else ""
    return (
        f"asked for a window{time_words}; it is in the account some seconds after its last step",
        True,
    )


def _obstacle(run: RunView, document: ManifestDocument) -> str | None:
    """Return why a run can have no window now."""
    host = document.manifest.host
    if run.status != RUNNING:
        return "the run is over: there will be no window"
    if host not in {"", platform.node()}:
        return f"the run is on {host}: ask for a window there"
    if run.no_windows is not None:
        return f"the recorder makes no windows: {run.no_windows}"
    if not run.steps:
        return "no step has ended yet: the first window comes by itself"
    return None


def _steps_in_lead(run: RunView) -> int:
    mean_ns = 0 if run.recent is None else run.recent.mean_ns
    return math.ceil(_LEAD_NS / mean_ns) if mean_ns else 0
