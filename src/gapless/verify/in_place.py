"""Start a command as far as its recorder takes it over, and return the document that it wrote.

It runs as an arm of a trial does: in a private view of its folder where there is one, loggers kept
apart; and it leaves as an arm does, before anything else of the user's runs.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct, field

from gapless import wire
from gapless.launch.trial import offline
from gapless.model.recording import Recording
from gapless.model.trial import Arm
from gapless.verify.arms import arm
from gapless.verify.specs import UNEDITED, ArmSpec
from gapless.verify.trial import logging_edits

_STOP_STEPS: Final = 10**9  # never: it leaves when it is done

Progress = Callable[[str], None]


class TakeoverPlan(Struct, frozen=True):
    """The command, what its recorder is to do in the place of training, and how long at most."""

    command: tuple[str, ...]
    folder: Path
    has_private_view: bool
    takeover: Mapping[str, Any]  # as ``payload.trial`` reads it
    deadline_s: float
    take_files: Callable[[Path], None] | None = None  # called with the spool before it is removed


class TakeoverRecord(Struct):
    """What came of it: the payload's document, as far as it got, and how the command ended."""

    document: dict[str, Any] | None = None
    interrupted: bool = False
    arm: Arm | None = None
    recording: Recording | None = None
    output: str = ""
    _progress: str = ""
    _listeners: list[Progress] = field(default_factory=list[Progress])
    _takers: list[Callable[[Path], None]] = field(default_factory=list[Callable[[Path], None]])

    def read(self, spool: Path) -> None:
        """Take what the payload has written so far."""
        with suppress(OSError, ValueError):
            self.document = cast(
                "dict[str, Any]", json.loads((spool / wire.DATA_RESULT).read_bytes())
            )
        with suppress(OSError):
            words = (spool / wire.DATA_PROGRESS).read_text(encoding="utf-8", errors="replace")
            if words != self._progress:
                self._progress = words
                for report in self._listeners:
                    report(words)
        if self.document is not None and self.document.get("complete"):
            while self._takers:
                self._takers.pop()(spool)

    def listen(self, report_progress: Progress) -> None:
        """Report progress to a function from now on."""
        self._listeners.append(report_progress)

    def take_files(self, take: Callable[[Path], None]) -> None:
        """Have a function called with the spool, once the document is complete."""
        self._takers.append(take)


def run(plan: TakeoverPlan, report_progress: Progress) -> TakeoverRecord:
    """Run the command and return what was written; after Ctrl-C what there was until then.

    Raises ``OSError`` where it cannot begin.
    """
    record = TakeoverRecord()
    record.listen(report_progress)
    if plan.take_files is not None:
        record.take_files(plan.take_files)
    with tempfile.TemporaryDirectory(prefix="gapless-data-") as name:
        scratch = Path(name)
        offline.make(scratch / "offline")
        arm_plan = arm.ArmPlan(
            command=plan.command,
            out=scratch / "arm",
            private_folder=plan.folder if plan.has_private_view else None,
            variables=offline.variables(os.environ, scratch / "offline"),
            deadline_s=plan.deadline_s,
            losses=0,
            batches=0,
            folder=plan.folder,
            takeover=plan.takeover,
            watch=record.read,
        )
        edits = logging_edits(scratch / "offline")
        spec = ArmSpec(UNEDITED, 0, edits, _STOP_STEPS, 0.0)
        try:
            record.arm, record.recording = arm.run(arm_plan, spec)
        except KeyboardInterrupt:
            record.interrupted = True
        else:
            record.output = _read_output(record.arm)
    return record


def _read_output(outcome: Arm) -> str:
    if outcome.folder is None:
        return ""
    with suppress(OSError):
        return (Path(outcome.folder) / arm.OUTPUT).read_bytes()[-4096:].decode(errors="replace")
    return ""


def last_lines(output: str) -> Sequence[str]:
    """Return the last lines of what a command printed."""
    return [line.rstrip() for line in output.splitlines() if line.strip()][-3:]


def describe_failure(record: TakeoverRecord) -> str | None:
    """Return why nothing came of it: the payload's word, else how the command ended."""
    failed = None if record.document is None else record.document["failed"]
    if failed is not None:
        return str(failed["why"])
    outcome = record.arm
    if outcome is not None and outcome.failed not in {None, arm.NO_STEPS}:
        return outcome.failed
    return None
