"""Signals reach the command once, as if nobody stood before it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.launch import starting

# Counts the signals that it gets, and ends by itself a moment after so many.
COUNTS = """
import signal, sys, time
heard = []
def hear(number, frame):
    heard.append(number)
    print(number, flush=True)
for number in (1, 2, 3, 10, 12, 15, 18, 28):
    signal.signal(number, hear)
open('ready', 'w').close()
end = time.monotonic() + 200
while len(heard) < int(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.5)
sys.exit(5)
"""
WAITS_FOR_GO = "while test ! -e go; do sleep 0.05; done"  # waits for a file
SIGNALS = [
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGWINCH,
]


def send_each(
    send: Callable[[subprocess.Popen[bytes], int], None], numbers: Sequence[int], tmp_path: Path
) -> None:
    """Send signals one after the other, each once the one before has come, and see that no
    other comes.
    """
    command = [sys.executable, "-c", COUNTS, str(len(numbers))]
    with starting.start(command, tmp_path) as process:
        starting.wait_until((tmp_path / "ready").exists)
        assert process.stdout is not None
        for number in numbers:
            send(process, number)
            assert process.stdout.readline() == b"%d\n" % number
        output, _ = process.communicate(timeout=starting.PATIENCE_S)
    assert output == b""
    assert process.returncode == 5


def test_a_signal_to_us_alone_is_passed_on(tmp_path: Path) -> None:
    send_each(lambda process, number: process.send_signal(number), SIGNALS, tmp_path)


def test_a_signal_to_the_group_comes_once(tmp_path: Path) -> None:
    """A second SIGUSR1 would have a training requeue twice."""
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
    send_each(lambda process, number: os.killpg(process.pid, number), numbers, tmp_path)


def test_a_signal_that_ends_the_command_ends_us(tmp_path: Path) -> None:
    with starting.start(["sleep", "300"], tmp_path) as process:
        starting.wait_until(lambda: list(tmp_path.glob(".gapless/runs/*/run.json")))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=starting.PATIENCE_S)
    assert process.returncode == -signal.SIGTERM


def test_a_signal_of_the_commands_own_is_not_sent_back(tmp_path: Path) -> None:
    command = ["bash", "-c", "trap 'echo again' USR1; kill -USR1 $PPID; sleep 0.5; echo end"]
    assert starting.run(command, tmp_path).stdout == b"end\n"


def test_a_command_that_stands_still_does_not_stop_us_unasked(tmp_path: Path) -> None:
    with starting.start(["bash", "-c", f"echo $$; {WAITS_FOR_GO}; exit 6"], tmp_path) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.3)
        assert b") T " not in Path(f"/proc/{process.pid}/stat").read_bytes()
        os.kill(child, signal.SIGCONT)
        (tmp_path / "go").touch()
        process.communicate(timeout=starting.PATIENCE_S)
    assert process.returncode == 6


def test_we_stop_and_go_on_with_the_command(tmp_path: Path) -> None:
    program = (  # a child of its own would be stopped with it, and nobody told to go on
        "import os, sys, time\n"
        "os.write(1, b'%d\\n' % os.getpid())\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "sys.exit(6)"
    )
    with starting.start([sys.executable, "-c", program], tmp_path) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        stats = [Path(f"/proc/{number}/stat") for number in (child, process.pid)]
        os.killpg(process.pid, signal.SIGTSTP)
        starting.wait_until(lambda: all(b") T " in stat.read_bytes() for stat in stats))
        process.send_signal(signal.SIGCONT)  # to us alone
        starting.wait_until(lambda: all(b") T " not in stat.read_bytes() for stat in stats))
        (tmp_path / "go").touch()
        process.communicate(timeout=starting.PATIENCE_S)
    assert process.returncode == 6


def test_the_training_goes_on_when_we_are_killed(tmp_path: Path) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    keep_log = 'printf kept > "$GAPLESS_SPOOL/rank0.log"'
    script = f"echo $PPID $$; {keep_log}; {WAITS_FOR_GO}; echo done > ended"
    env = {**os.environ, "TMPDIR": str(spools)}
    with starting.start(["bash", "-c", script], tmp_path, env=env) as process:
        assert process.stdout is not None
        launcher, child = map(int, process.stdout.readline().split())
        assert launcher == process.pid
        starting.wait_until(lambda: list(tmp_path.glob(".gapless/runs/*/logs/rank0.log")))
        process.kill()
        process.wait(starting.PATIENCE_S)
        assert starting.is_alive(child)
        (tmp_path / "go").touch()
        starting.wait_until(lambda: starting.read_text(tmp_path / "ended"))
    starting.wait_until(lambda: not _find_group_members(launcher))
    (spool,) = spools.iterdir()
    manifest = (starting.run_folder(tmp_path) / "run.json").read_text()
    assert f'"spool": "{spool}"' in manifest
    assert (spool / "rank0.log").read_text() == "kept"


def test_nothing_of_ours_is_left_running(tmp_path: Path) -> None:
    with starting.start(["sleep", "0.5"], tmp_path) as process:
        process.communicate(timeout=starting.PATIENCE_S)
    starting.wait_until(lambda: not _find_group_members(process.pid))


def _find_group_members(group: int) -> list[Path]:
    return [
        path
        for path in Path("/proc").glob("[0-9]*/stat")
        if starting.read_bytes(path).rpartition(b")")[2].split()[2:3] == [str(group).encode()]
    ]
