"""Where the main thread of a foreign Python process is: py-spy's looks, where it is allowed."""

import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gapless.live.outside.attached import LineUse

_HZ: Final = 20
_PATIENCE_S: Final = 20.0  # beyond the time that it is asked to look
_MAX_LINES: Final = 5
_MAIN: Final = "MainThread"
_LIBRARIES: Final = ("site-packages", "dist-packages", "/lib/python3", "(<")
_ABSENT: Final = "py-spy is not installed, so no line of source is known: pip install py-spy"


@dataclass
class StackLooks:
    """py-spy at work beside us; it reads memory, and does not stop the process."""

    pid: int
    seconds: float
    why_none: str | None = None
    _output: Path | None = None
    _child: "subprocess.Popen[str] | None" = None
    _folder: "tempfile.TemporaryDirectory[str] | None" = field(default=None, repr=False)

    def start(self) -> None:
        """Start py-spy, if it is there."""
        program = shutil.which("py-spy")
        if program is None:
            self.why_none = _ABSENT
            return
        self._folder = tempfile.TemporaryDirectory(prefix="gapless-attach-")
        self._output = Path(self._folder.name) / "stacks.txt"
        command = [
            program,
            "record",
            "--pid",
            str(self.pid),
            "--nonblocking",
            "--idle",
            "--threads",
        ]
        command += ["--duration", str(max(1, round(self.seconds))), "--rate", str(_HZ)]
        command += ["--format", "raw", "--full-filenames", "--output", str(self._output)]
        self._child = subprocess.Popen(  # noqa: S603 - the program that was found, on a number
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> tuple[LineUse, ...]:
        """Return the lines at which it saw the main thread most; why none, if so."""
        if self._child is None or self._output is None:
            return ()
        complaint = ""
        try:
            _, complaint = self._child.communicate(timeout=_PATIENCE_S)
            stacks = self._output.read_text(encoding="utf-8", errors="replace")
        except subprocess.TimeoutExpired:
            self.stop()
            self.why_none = "py-spy did not come to an end"
            return ()
        except OSError:
            reason = complaint.strip().splitlines()[-1:] or ["it wrote nothing"]
            self.why_none = f"py-spy saw nothing: {reason[0]}"
            return ()
        lines = count_lines(stacks)
        if not lines:
            self.why_none = "py-spy saw no main thread"
        return lines

    def stop(self) -> None:
        """End py-spy, and remove what it wrote."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.communicate()
        if self._folder is not None:
            self._folder.cleanup()


def count_lines(stacks: str) -> tuple[LineUse, ...]:
    """Return the innermost lines of the main thread outside libraries, most frequent first.

    ``stacks``: a line each, "thread;outer;…;inner count".
    """
    counts = Counter[str]()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if count.isdigit() and any(_MAIN in frame for frame in frames[:2]):
            counts[_own_line(frames)] += int(count)
    total = sum(counts.values())
    return tuple(LineUse(count / total, place) for place, count in counts.most_common(_MAX_LINES))


def _own_line(frames: list[str]) -> str:
    """Return the innermost frame that is in no library; without any, the innermost."""
    own_frames = (
        frame for frame in reversed(frames) if not any(sign in frame for sign in _LIBRARIES)
    )
    return next((frame for frame in own_frames if "(" in frame and _MAIN not in frame), frames[-1])
