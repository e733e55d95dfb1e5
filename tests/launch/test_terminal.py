"""On a terminal: Ctrl-C, Ctrl-Z, fg, the debugger, as if nobody stood between."""

import json
import os
import pty
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.launch import starting

GAPLESS = " ".join(starting.GAPLESS) + " run"


@dataclass
class Terminal:
    """An interactive shell on a terminal."""

    pid: int
    screen: int
    unread_text: str = ""

    def type(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def reads_lines(self) -> bool:
        """Return whether the shell has left the terminal to a program."""
        return bool(termios.tcgetattr(self.screen)[3] & termios.ICANON)

    def expect(self, pattern: str, seconds: float = starting.PATIENCE_S) -> re.Match[str]:
        """Read on until a pattern shows; what was before it is gone."""
        end = time.monotonic() + seconds
        while (match := re.search(pattern, self.unread_text)) is None:
            assert time.monotonic() < end, f"no {pattern!r} in {self.unread_text!r}"
            if select.select([self.screen], [], [], 0.1)[0]:
                self.unread_text += os.read(self.screen, 4096).decode(errors="replace")
        self.unread_text = self.unread_text[match.end() :]
        return match


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        for number in (signal.SIGINT, signal.SIGQUIT):  # ignored in what runs in the background
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(PS1="$ ", PYTHONUNBUFFERED="1", TERM="dumb")
        os.execv("/bin/bash", ["bash", "--norc", "--noprofile", "-i"])  # noqa: S606
    shell = Terminal(pid, screen)
    shell.expect(r"\$ ")
    yield shell
    os.kill(pid, signal.SIGHUP)
    os.close(screen)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


WAITS = "import time\nprint('up', flush=True)\ntime.sleep(200)\n"
CATCHES = (
    "import time\ntry:\n    print('up', flush=True)\n    time.sleep(200)\n"
    "except KeyboardInterrupt:\n    print('caught')\n    time.sleep(0.5)\n    raise SystemExit(8)\n"
)


def test_ctrl_c_interrupts_the_command_and_the_shell_sees_it(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    terminal.type(f"{GAPLESS} {sys.executable} waits.py; echo code=$?\n")
    terminal.expect(r"\nup\r")
    terminal.type("\x03")
    terminal.expect(r"KeyboardInterrupt")
    terminal.expect(r"gapless: what was seen is in")
    terminal.type("echo code=$?\n")
    terminal.expect(r"code=130\r")


def test_ctrl_c_comes_once(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "catches.py").write_text(CATCHES)
    terminal.type(f"{GAPLESS} {sys.executable} catches.py; echo code=$?\n")
    terminal.expect(r"\nup\r")
    terminal.type("\x03")
    terminal.expect(r"caught\r")
    terminal.expect(r"code=8\r")


def test_ctrl_z_stops_and_fg_goes_on(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text("print('up')\nprint('got', input())\n")
    terminal.type(f"{GAPLESS} {sys.executable} reads.py\n")
    terminal.expect(r"\nup\r")
    terminal.type("\x1a")
    terminal.expect(r"Stopped.*reads.py\r")
    terminal.expect(r"\$ ")
    terminal.type("fg\n")
    terminal.expect(r"reads.py\r")
    starting.wait_until(terminal.reads_lines)
    terminal.type("words\n")
    terminal.expect(r"got words\r")
    terminal.expect(r"gapless: what was seen is in")
    terminal.type("echo code=$?\n")
    terminal.expect(r"code=0\r")


def test_in_the_background_it_goes_on_and_may_not_read(terminal: Terminal) -> None:
    terminal.type(f"{GAPLESS} cat &\n")
    launcher = int(terminal.expect(r"\[1\] (\d+)\r")[1])
    stat = Path(f"/proc/{launcher}/stat")
    starting.wait_until(lambda: b") T " in stat.read_bytes())
    terminal.type("\n")
    terminal.expect(r"Stopped.*cat\r")
    terminal.expect(r"\$ ")
    terminal.type("fg\n")
    terminal.expect(r"cat\r")
    starting.wait_until(terminal.reads_lines)
    terminal.type("through\n\x04")
    terminal.expect(r"through\r\nthrough\r")
    terminal.expect(r"gapless: what was seen is in")


def test_the_debugger_works(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "stops.py").write_text("value = 41\nbreakpoint()\nprint('on', value)\n")
    terminal.type(f"{GAPLESS} {sys.executable} stops.py\n")
    terminal.expect(r"\(Pdb\) ")
    terminal.type("p value + 1\n")
    terminal.expect(r"\n42\r")
    terminal.type("c\n")
    terminal.expect(r"on 41\r")


def test_a_terminal_that_is_closed_ends_the_command_and_us(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    terminal.type(f"{GAPLESS} {sys.executable} waits.py\n")
    terminal.expect(r"\nup\r")
    starting.wait_until(lambda: list(tmp_path.glob(".gapless/runs/*/run.json")))
    os.close(terminal.screen)
    terminal.screen = os.open(os.devnull, os.O_RDONLY)
    (manifest,) = tmp_path.glob(".gapless/runs/*/run.json")
    starting.wait_until(lambda: json.loads(manifest.read_text())["spool"] is None)
    document = json.loads(manifest.read_text())
    assert (document["status"], document["exit_code"]) == ("killed", -signal.SIGHUP)
    starting.wait_until(lambda: not starting.is_alive(document["launcher"]))


def test_the_command_is_on_the_terminal_and_learns_its_size(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "size.py").write_text(
        "import os, sys\nprint(*map(os.isatty, (0, 1, 2)), os.tcgetpgrp(0) == os.getpgrp())\n"
    )
    terminal.type(f"{GAPLESS} {sys.executable} size.py\n")
    terminal.expect(r"True True True True\r")
