"""What the launcher could not observe: kept, and written where the reader finds it."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gapless import wire

if TYPE_CHECKING:
    from gapless.model.recording import Unobserved

LOG = "samples.log"  # the launcher's own log, in the spool like those of the training


@dataclass
class Journal:
    """The launcher's log: whatever fails beside the training ends here, and goes no further."""

    spool: Path
    _reasons: dict[str, str] = field(default_factory=dict[str, str])

    def write(self, frame: bytes) -> None:
        """Append a frame; a full disk loses it, and the training does not notice."""
        with suppress(OSError):
            log = os.open(self.spool / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                before = os.fstat(log).st_size
                if os.write(log, frame) < len(frame):
                    os.ftruncate(log, before)  # half a frame would hide those after it
            finally:
                os.close(log)

    def note(self, subject: str, why: str) -> None:
        """Write down, once, what is not observed, and why."""
        if subject in self._reasons:
            return
        self._reasons[subject] = why
        self.write(wire.text_frame(wire.UNOBSERVED, {"what": subject, "why": why, "count": 1}))

    def list_unobserved(self) -> "tuple[Unobserved, ...]":
        """Return what was not observed so far."""
        from gapless.model.recording import Unobserved

        return tuple(Unobserved(subject, why) for subject, why in dict(self._reasons).items())

    @contextmanager
    def guard(self, subject: str) -> Generator[None]:
        """Let nothing that fails inside reach the training: it is noted instead."""
        with contain_failures() as failures:
            yield
        for error in failures:
            self.note(subject, describe_error(error))


@contextmanager
def contain_failures() -> Generator[list[Exception]]:
    """Let nothing pass that fails inside; afterwards the list holds what it was.

    The one border between our work and the command, which runs and ends as it would without us.
    """
    failures: list[Exception] = []
    try:
        yield failures
    except Exception as error:  # noqa: BLE001
        failures.append(error)


def describe_error(error: BaseException) -> str:
    """Return one line of what an error says."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(f"{type(error).__name__}: {words}".split())
