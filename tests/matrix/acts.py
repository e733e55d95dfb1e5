"""What is done to a training from outside, once it says that it is ready."""

import os
import re
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120.0


@dataclass
class Running:
    """A command that was started: as it is, or under gapless."""

    pid: int
    folder: Path
    under_gapless: Callable[[], bool]
    screen: int | None = None  # of the terminal that it runs on
    shown: bytes = b""
    _passed: int = 0  # of what was shown

    def ready(self) -> int:
        """Wait until a process of the training waits for us; give its number."""
        file = self.folder / "ready0"
        self.until(file.exists)
        pid = int(file.read_text())
        self.until(lambda: _rests(pid))
        return pid

    def until(self, true: Callable[[], object]) -> None:
        """Wait until something is so; meanwhile read what is shown."""
        end = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end, f"it never came to be: {self.shown!r}"
            self.look()

    def look(self) -> None:
        """Read what the terminal shows, if there is one, for a moment."""
        if self.screen is None:
            time.sleep(0.02)
        elif select.select([self.screen], [], [], 0.02)[0]:
            try:
                self.shown += os.read(self.screen, 1 << 16)
            except OSError:  # nobody has the terminal open any more
                time.sleep(0.02)

    def expect(self, pattern: bytes) -> None:
        """Wait until the terminal shows something."""
        expression = re.compile(pattern)
        self.until(lambda: expression.search(self.shown, self._passed))
        self._passed = len(self.shown)

    def type(self, keys: bytes) -> None:
        """Type on the terminal."""
        assert self.screen is not None
        os.write(self.screen, keys)

    def open_gate(self) -> None:
        """Let the training go on."""
        (self.folder / "gate0").write_bytes(b"!")


def _rests(pid: int) -> bool:
    """Tell whether a process's first thread waits for something, and did so for a while."""
    seen: set[bytes] = set()
    for _ in range(8):
        line = Path(f"/proc/{pid}/task/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if line[0] != b"S":
            return False
        seen.add(b" ".join(line[11:13]))  # its time on a processor
        time.sleep(0.02)
    return len(seen) == 1


def _group(number: int) -> Callable[[Running], None]:
    """Send a signal to all, as the terminal and most batch systems do."""

    def act(running: Running) -> None:
        running.ready()
        os.killpg(running.pid, number)

    return act


def _ctrl_c(running: Running) -> None:
    running.ready()
    running.type(b"\x03")


def _kill(running: Running) -> None:
    os.kill(running.ready(), signal.SIGKILL)


def _kill_launcher(running: Running) -> None:
    running.ready()
    if running.under_gapless():
        os.kill(running.pid, signal.SIGKILL)
    running.open_gate()


def _requeue(running: Running) -> None:
    running.ready()
    os.killpg(running.pid, signal.SIGUSR1)
    running.until((running.folder / "heard").exists)
    running.open_gate()


def _stop_and_go_on(running: Running) -> None:
    pid = running.ready()
    stat = Path(f"/proc/{pid}/stat")
    os.killpg(running.pid, signal.SIGTSTP)
    running.until(lambda: b") T " in stat.read_bytes())
    os.killpg(running.pid, signal.SIGCONT)
    running.until(lambda: b") T " not in stat.read_bytes())
    running.open_gate()


def _debug(running: Running) -> None:
    for line in (b"where", b"up", b"p value + 1", b"down", b"value = 7", b"continue"):
        running.expect(rb"\(Pdb\) $")
        running.type(line + b"\n")


ACTS: dict[str, Callable[[Running], None]] = {
    "interrupt": _group(signal.SIGINT),
    "terminate": _group(signal.SIGTERM),
    "hang-up": _group(signal.SIGHUP),
    "ctrl-c": _ctrl_c,
    "kill": _kill,
    "kill-launcher": _kill_launcher,
    "requeue": _requeue,
    "stop-and-go-on": _stop_and_go_on,
    "debug": _debug,
}
ON_A_TERMINAL = {"ctrl-c", "debug"}
EXITS = {"kill-launcher": -signal.SIGKILL}  # of gapless, where it cannot be the training's
