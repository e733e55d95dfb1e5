"""Two arms step in turns: whose turn it is, that the other stands still, and that both end."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gapless import wire
from gapless.launch.trial.turns import Seat, choose, conduct
from tests.waiting import wait_until

TICKER = """
import os, sys, time
spool = os.environ["GAPLESS_SPOOL"]
over = os.open(f"{spool}/turn-over", os.O_WRONLY)
begins = os.open(f"{spool}/turn-begins", os.O_RDWR)
for turn in range(4):
    os.write(over, b"%d\\n" % os.getpid())
    os.read(begins, 1)
    for _ in range(5):
        print(time.monotonic_ns(), flush=True)
        time.sleep(0.01)
"""


def test_the_first_begins_and_then_they_take_turns() -> None:
    first, second = Seat(), Seat()
    assert choose(first, second) is None
    second.turns, second.is_waiting = 1, True
    assert choose(first, second) is None  # the other still starts
    first.turns, first.is_waiting = 1, True
    assert choose(first, second) is first
    first.is_waiting = False
    assert choose(first, second) is None
    first.turns, first.is_waiting = 2, True
    assert choose(first, second) is second


def test_one_that_is_alone_goes_on() -> None:
    first, second = Seat(), Seat(turns=3, is_waiting=True)
    first.leave()
    assert choose(first, second) is second


def start_ticker(seat: Seat, spool: Path) -> "subprocess.Popen[str]":
    spool.mkdir()
    seat.open(spool)
    return subprocess.Popen(
        (sys.executable, "-c", TICKER),
        env={**os.environ, wire.SPOOL: str(spool)},
        stdout=subprocess.PIPE,
        text=True,
    )


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_while_one_steps_the_other_stands_still(tmp_path: Path) -> None:
    seats, ended = (Seat(), Seat()), threading.Event()
    children = [start_ticker(seat, tmp_path / name) for seat, name in zip(seats, "ab", strict=True)]
    conductor = threading.Thread(target=conduct, args=(*seats, ended))
    conductor.start()
    times: list[tuple[int, str]] = []
    for seat, child, name in zip(seats, children, "ab", strict=True):
        printed, _ = child.communicate()
        times += [(int(line), name) for line in printed.splitlines()]
        assert child.returncode == 0
        seat.leave()
    conductor.join()
    order = "".join(name for _, name in sorted(times))
    assert order == ("a" * 5 + "b" * 5) * 4


def test_what_waits_is_stopped_with_its_threads(tmp_path: Path) -> None:
    seats, ended = (Seat(), Seat()), threading.Event()
    child = start_ticker(seats[0], tmp_path / "a")
    (tmp_path / "b").mkdir()
    seats[1].open(tmp_path / "b")
    conductor = threading.Thread(target=conduct, args=(*seats, ended))
    conductor.start()
    try:
        wait_until(lambda: read_state(child.pid) == "T")
    finally:
        seats[1].leave()
        child.communicate()
        ended.set()
        conductor.join()
    assert child.returncode == 0


def test_a_process_of_another_arm_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def send_signal(_number: int, _started: int, signal_number: int) -> None:
        sent.append(signal_number)

    monkeypatch.setattr("gapless.launch.run.checking.send_signal", send_signal)
    seat = Seat()
    seat.open(tmp_path)
    os.write(seat.over_pipe, b"%d\n" % os.getpid())
    seat.hear()
    assert (seat.is_waiting, seat.turns, sent) == (True, 1, [])
    seat.give_turn()
    assert os.read(seat.begins_pipe, 10) == b"\n"
    assert signal.SIGCONT not in sent
    seat.close()
