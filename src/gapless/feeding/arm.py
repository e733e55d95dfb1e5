"""Start the command as far as its loader, and have that measured in the place of training.

It runs as an arm of a trial does: in a private view of its folder where there is one, loggers kept
apart, and it leaves before a step is taken.
"""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct, field

from gapless import wire
from gapless.launch.trial import offline
from gapless.model.edit import Location
from gapless.model.recording import Recording
from gapless.model.trial import Arm
from gapless.verify.arms import arm
from gapless.verify.specs import UNEDITED, ArmSpec
from gapless.verify.trial import logging_edits

_START_S: Final = 600.0  # for the command to come as far as its loader, beside the time to measure
_PATIENCE: Final = 4.0  # times the seconds asked for: one round may be long
_STOP_STEPS: Final = 10**9  # never: it leaves when it has measured

Progress = Callable[[str], None]


class InputPlan(Struct, frozen=True):
    """What to measure: the command, its loader where it is known, how many samples, how long."""

    command: tuple[str, ...]
    folder: Path
    has_private_view: bool
    loaders: tuple[Location, ...]  # lines at which loaders of the training were made
    samples: int
    seconds: float


class InputRecord(Struct):
    """What came of it: the payload's document, as far as it got, and how the command ended."""

    document: dict[str, Any] | None = None
    interrupted: bool = False
    arm: Arm | None = None
    recording: Recording | None = None
    output: str = ""
    _progress: str = ""
    _listeners: list[Progress] = field(default_factory=list[Progress])

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

    def listen(self, report_progress: Progress) -> None:
        """Report progress to a function from now on."""
        self._listeners.append(report_progress)


def run_arm(plan: InputPlan, report_progress: Progress) -> InputRecord:
    """Run the command and return what was measured; after Ctrl-C what there was until then.

    Raises ``OSError`` where it cannot begin.
    """
    record = InputRecord()
    record.listen(report_progress)
    report_progress("starting the command, as far as its loader")
    with tempfile.TemporaryDirectory(prefix="gapless-data-") as name:
        place = Path(name)
        offline.make(place / "offline")
        arm_plan = arm.ArmPlan(
            command=plan.command,
            out=place / "arm",
            private_folder=plan.folder if plan.has_private_view else None,
            variables=offline.variables(os.environ, place / "offline"),
            deadline_s=_START_S + _PATIENCE * plan.seconds,
            losses=0,
            batches=0,
            folder=plan.folder,
            input_plan=_payload_plan(plan),
            watch=record.read,
        )
        edits = logging_edits(place / "offline")
        spec = ArmSpec(UNEDITED, 0, edits, _STOP_STEPS, 0.0)
        try:
            record.arm, record.recording = arm.run(arm_plan, spec)
        except KeyboardInterrupt:
            record.interrupted = True
        else:
            record.output = _read_output(record.arm)
    return record


def _payload_plan(plan: InputPlan) -> dict[str, Any]:
    return {
        "lines": [[location.file, location.line] for location in plan.loaders],
        "samples": plan.samples,
        "seconds": plan.seconds,
    }


def _read_output(outcome: Arm) -> str:
    if outcome.folder is None:
        return ""
    with suppress(OSError):
        return (Path(outcome.folder) / arm.OUTPUT).read_bytes()[-4096:].decode(errors="replace")
    return ""


def last_lines(output: str, count: int = 3) -> Sequence[str]:
    """Return the last lines of what a command printed."""
    return [line.rstrip() for line in output.splitlines() if line.strip()][-count:]
