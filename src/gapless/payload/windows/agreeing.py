"""Whether a window opens where time decides: the first rank of a host that asks, decides for all.

Ranks come to the same steps, but not at the same time. The decision is a link in the spool: it is
made with what it says, or is there already.
"""

from __future__ import annotations

import os

from .. import tracebacks
from .plan import PROBE, RANKS_PROBE

FOLDER = "plan"
_YES, _NO = "yes", "no"
_JOB = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")


class RankAgreement:
    """What the ranks of a job open after which step."""

    def __init__(self, spool: str) -> None:
        job = "-".join(os.environ.get(name, "").replace(os.sep, "") for name in _JOB)
        self.stem = os.path.join(spool, FOLDER, job)
        self.one_host = _one_host()

    def open(self, kind: str, step: int, is_wanted: bool) -> bool:  # noqa: FBT001
        """Return whether all open such a window after a step; on several hosts numbers decide."""
        if not self.one_host:
            return kind is not PROBE or step >= RANKS_PROBE
        try:
            return _read_decision(f"{self.stem}-{kind}-{step}", is_wanted)
        except OSError as error:
            tracebacks.pass_on(error)
            return is_wanted


def _read_decision(path: str, is_wanted: bool) -> bool:  # noqa: FBT001
    """Return what was decided first. Raises ``OSError`` where nothing can be."""
    try:
        _decide(path, is_wanted)
    except FileNotFoundError:
        with tracebacks.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path))
        _decide(path, is_wanted)
    return os.readlink(path) == _YES


def _decide(path: str, is_wanted: bool) -> None:  # noqa: FBT001
    with tracebacks.suppress(FileExistsError):
        os.symlink(_YES if is_wanted else _NO, path)


def _one_host() -> bool:
    """Return whether all ranks of the job are on this host, as far as is known."""
    if "LOCAL_WORLD_SIZE" in os.environ:
        return os.environ["LOCAL_WORLD_SIZE"] == os.environ.get("WORLD_SIZE")
    return os.environ.get("SLURM_NNODES", "1") == "1"
