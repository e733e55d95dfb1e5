"""The verdict on a recorded loop: found in a process of its own, beside the training."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

from gapless.report.run.page import step_sheet
from gapless.report.run.sentences import headline
from gapless.study import Options, open_run
from gapless.tracking.figures import track_study

_CODE: Final = "from gapless.integrations.verdicts import print_verdict; print_verdict()"
_NICENESS: Final = 10  # the training goes on beside it


class LoopVerdict(Struct, frozen=True):
    """What is said of a loop in one line, and its figures as trackers take them."""

    line: str
    figures: dict[str, float]


def begin_verdict(run: Path, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start the study of a run; what it finds is written to ``output``."""
    return subprocess.Popen(  # noqa: S603 - this interpreter, on a folder of ours
        [sys.executable, "-P", "-c", _CODE, str(run)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
    )


def print_verdict() -> None:
    """Print the verdict on the run whose folder is the first argument."""
    os.nice(_NICENESS)
    sys.stdout.buffer.write(msgspec.json.encode(find_verdict(Path(sys.argv[1]))))


def find_verdict(run: Path) -> LoopVerdict:
    """Return what is to be said of a run."""
    study = open_run(run, Options(), lambda _: None)
    tracked = track_study(study)
    parts = [tracked.verdict]
    if study.recorded is not None:
        parts.insert(0, headline(study, study.recorded, step_sheet(study.recorded)))
    for finding in () if study.diagnosis is None else study.diagnosis.findings[:1]:
        speedup, detection = finding.prediction.speedup, finding.detection
        gain = "" if speedup is None else f" (without it a step is {speedup.mid:.2f}× as fast)"
        parts.append(f"{detection.code} {detection.name}{gain}")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        parts.append("of one rank alone")
    line = " · ".join(phrase for phrase in (*parts, f"gapless report {run}") if phrase)
    return LoopVerdict(line, {figure.name: figure.value for figure in tracked.figures})
