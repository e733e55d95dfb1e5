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
class RunningCommand:
    """A command that was started: as it is, or under gapless."""

    pid: int
    folder: Path
    under_gapless: Callable[[], bool]
    screen: int | None = None  # of the terminal that it runs on
    output: bytes = b""
    _position: int = 0  # of what was shown

    def wait_ready(self) -> int:
        """Wait until a process of the training waits for us; give its number."""
        file = self.folder / "ready0"
        self.wait_until(file.exists)
        pid = int(file.read_text())
        self.wait_until(lambda: _is_waiting(pid))
        return pid

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so; meanwhile read what is shown."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"it never came to be: {self.output!r}"
            self.read_screen()

    def read_screen(self) -> None:
        """Read what the terminal shows, if there is one, for a moment."""
        if self.screen is None:
            time.sleep(0.02)
        elif select.select([self.screen], [], [], 0.02)[0]:
            try:
                self.output += os.read(self.screen, 1 << 16)
            except OSError:  # nobody has the terminal open any more
                time.sleep(0.02)

    def expect(self, pattern: bytes) -> None:
        """Wait until the terminal shows something."""
        expression = re.compile(pattern)
        self.wait_until(lambda: expression.search(self.output, self._position))
        self._position = len(self.output)

    def type(self, keys: bytes) -> None:
        """Type on the terminal."""
        assert self.screen is not None
        os.write(self.screen, keys)

    def open_gate(self) -> None:
        """Let the training go on."""
        (self.folder / "gate0").write_bytes(b"!")


def _is_waiting(pid: int) -> bool:
    """Return whether a process's first thread waits for something, and did so for a while."""
    cpu_times: set[bytes] = set()
    for _ in range(8):
        line = Path(f"/proc/{pid}/task/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if line[0] != b"S":
            return False
        cpu_times.add(b" ".join(line[11:13]))  # its time on a processor
        time.sleep(0.02)
    return len(cpu_times) == 1


def _signal_group(number: int) -> Callable[[RunningCommand], None]:
    """Send a signal to all, as the terminal and most batch systems do."""

    def act(running: RunningCommand) -> None:
        running.wait_ready()
        os.killpg(running.pid, number)

    return act


def _press_ctrl_c(running: RunningCommand) -> None:
    running.wait_ready()
    running.type(b"\x03")


def _kill(running: RunningCommand) -> None:
    os.kill(running.wait_ready(), signal.SIGKILL)


def _kill_launcher(running: RunningCommand) -> None:
    running.wait_ready()
    if running.under_gapless():
        os.kill(running.pid, signal.SIGKILL)
    running.open_gate()


def _requeue(running: RunningCommand) -> None:
    running.wait_ready()
    os.killpg(running.pid, signal.SIGUSR1)
    running.wait_until((running.folder / "heard").exists)
    running.open_gate()


def _stop_and_continue(running: RunningCommand) -> None:
    pid = running.wait_ready()
    stat = Path(f"/proc/{pid}/stat")
    os.killpg(running.pid, signal.SIGTSTP)
    running.wait_until(lambda: b") T " in stat.read_bytes())
    os.killpg(running.pid, signal.SIGCONT)
    running.wait_until(lambda: b") T " not in stat.read_bytes())
    running.open_gate()


def _debug(running: RunningCommand) -> None:
    for line in (b"where", b"up", b"p value + 1", b"down", b"value = 7", b"continue"):
        running.expect(rb"\(Pdb\) $")
        running.type(line + b"\n")


ACTS: dict[str, Callable[[RunningCommand], None]] = {
    "interrupt": _signal_group(signal.SIGINT),
    "terminate": _signal_group(signal.SIGTERM),
    "hang-up": _signal_group(signal.SIGHUP),
    "ctrl-c": _press_ctrl_c,
    "kill": _kill,
    "kill-launcher": _kill_launcher,
    "requeue": _requeue,
    "stop-and-go-on": _stop_and_continue,
    "debug": _debug,
}
ON_A_TERMINAL = {"ctrl-c", "debug"}
EXITS = {"kill-launcher": -signal.SIGKILL}  # of gapless, where it cannot be the training's
