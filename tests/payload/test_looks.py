# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Looks stand for time without bias, whoever lets go of the GIL, and disturb nothing."""

import hashlib
import math
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gapless import wire
from gapless.payload import blocked, recorder, stacks, switching
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
RAN, OFF, KINDS = 2, 3, 4  # of what is written of a stack
_counts, _look = stacks._counts, stacks._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    frames: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.STACKS
        frames.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(recorder, "options", lambda: {"stacks_hz": 50})
    monkeypatch.setattr(recorder, "stepping_thread", lambda: (None, None))
    monkeypatch.setattr(stacks, "TELL_NS", 1 << 62)  # all is told at the end
    monkeypatch.setattr(stacks, "PATIENCE_S", PATIENCE_S)
    yield frames
    stacks.stop()


def pure(end: float) -> None:
    """Hold the GIL, as a loop in Python does."""
    while time.monotonic() < end:
        sum(range(50))


def in_c(end: float) -> None:
    """Hold the GIL for a millisecond at a time, as a large call into C does."""
    while time.monotonic() < end:
        sum(range(100_000))


def released(end: float) -> None:
    """Let go of the GIL again and again, as operators of torch do."""
    while time.monotonic() < end:
        hashlib.sha256(_BYTES)


_BYTES = bytes(20_000)  # 10 to 40 µs
_PARTS = (pure, in_c, released)
DEVIATIONS = 6  # standard deviations of a sample: chance alone exceeds them once in 10⁹ runs


def turns(count: int) -> Counter[str]:
    """Work in turns of drawn lengths, in step with no clock; give the time of each part, in ns."""
    spent, drawn = Counter[str](), random.Random(0)
    for _ in range(count):
        for part, most in zip(_PARTS, (0.02, 0.01, 0.02), strict=True):
            began = time.monotonic_ns()
            part(time.monotonic() + drawn.uniform(0, most))
            spent[part.__name__] += time.monotonic_ns() - began
    return spent


def test_looks_stand_for_time_whoever_lets_go_of_the_gil(
    written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def look(passed: int, ran: int | None) -> None:
        lengths.append(passed)
        _look(passed, ran)

    monkeypatch.setattr(stacks, "_look", look)
    stacks.start()
    spent = turns(60)
    stacks.stop()
    seen = Counter[str]()
    for stack in written[0]["stacks"]:
        seen.update({name: stack[RAN] + stack[OFF] for _, _, name in stack[1] if name in spent})
    for name, ns in spent.items():
        share = ns / spent.total()
        deviation = math.sqrt(share * (1 - share) * sum(ns * ns for ns in lengths)) / sum(lengths)
        assert abs(seen[name] / seen.total() - share) < DEVIATIONS * deviation, name
    assert sys.getswitchinterval() == USUAL_S


USUAL_S = sys.getswitchinterval()


def asleep() -> None:
    while not _counted("sleep"):
        time.sleep(0.1)


def talk() -> None:
    reader, writer = socket.socketpair()
    with reader, writer:

        def send() -> None:
            until(lambda: _counted("socket"))
            writer.send(b"x")

        sender = threading.Thread(target=send)
        sender.start()
        assert reader.recv(1) == b"x"
        sender.join()


def _counted(kind: str) -> bool:
    return any(entry[KINDS - 1].get(kind, 0) > 50_000_000 for entry in _counts.copy().values())


def test_what_is_waited_for_is_told_by_its_kind(written: list[dict[str, Any]]) -> None:
    stacks.start()
    asleep()
    talk()
    stacks.stop()
    kinds: dict[str, set[str]] = {}
    for stack in written[0]["stacks"]:
        for _, _, name in stack[1]:
            kinds.setdefault(name, set()).update(stack[KINDS])
    assert "sleep" in kinds["asleep"]
    assert "socket" in kinds["talk"]


def test_who_waits_for_the_gil_alone_runs() -> None:
    blocked.prepare()
    thread = threading.Thread(target=lambda: pure(time.monotonic() + 1.0))
    thread.start()
    kinds = {blocked.waits_for(thread.native_id, runs=True) for _ in range(200)}
    thread.join()
    assert kinds <= {None, blocked.OTHER}, "off the processor now and then, but in no call"
    lock = threading.Lock()
    with lock:
        thread = threading.Thread(target=lambda: lock.acquire() and lock.release())
        thread.start()
        until(lambda: blocked.waits_for(thread.native_id, runs=True) == "lock")
    thread.join()


@pytest.mark.parametrize("moves", [False, True])
def test_what_is_asked_of_a_thread_that_went_on_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, *, moves: bool
) -> None:
    class Frame:
        f_lasti, f_back = 20, None

    entry: list[Any] = [0, 0, 0, {}]
    top = Frame()
    frames = iter((top, Frame() if moves else top))
    monkeypatch.setattr(sys, "_current_frames", lambda: {1: next(frames)})
    monkeypatch.setattr(recorder, "stepping_thread", lambda: (1, 1))
    monkeypatch.setattr(blocked, "waits_for", lambda *_, **__: "sleep")
    monkeypatch.setattr(stacks, "_entry", lambda _: entry)
    _look(7, None)
    assert entry == ([1, 7, 0, {}] if moves else [1, 0, 7, {"sleep": 7}])


@pytest.mark.parametrize(("runs", "kind"), [(True, None), (False, blocked.OTHER)])
def test_where_the_system_tells_of_no_call_the_clock_decides(
    monkeypatch: pytest.MonkeyPatch, *, runs: bool, kind: str | None
) -> None:
    def read(_path: bytes) -> bytes:
        return b""

    monkeypatch.setattr(blocked, "_read", read)
    assert blocked.waits_for(threading.get_native_id(), runs=runs) == kind


def test_an_interval_that_the_user_sets_stays() -> None:
    try:
        switching.shorten()
        sys.setswitchinterval(0.003)
        switching.restore()
        assert sys.getswitchinterval() == pytest.approx(0.003)
        switching.shorten()
        read = sys.getswitchinterval()  # by the user, in the middle of a look
        switching.restore()
        sys.setswitchinterval(read)
        switching.shorten()
        switching.restore()
        assert sys.getswitchinterval() == pytest.approx(0.003)
    finally:
        sys.setswitchinterval(USUAL_S)


def test_nothing_is_shortened_while_the_interval_is_held() -> None:
    try:
        switching.shorten()
        switching.hold(1.0)
        switching.shorten()
        assert sys.getswitchinterval() == 1.0
        switching.release()
        assert sys.getswitchinterval() == USUAL_S
    finally:
        sys.setswitchinterval(USUAL_S)


def test_random_numbers_and_the_interval_are_the_users_own(written: list[dict[str, Any]]) -> None:
    state = random.getstate()
    stacks.start()
    pure(time.monotonic() + 0.1)
    stacks.stop()
    assert random.getstate() == state
    assert sys.getswitchinterval() == USUAL_S
    assert len(written) <= 1


def test_a_forked_child_has_the_users_interval(written: list[dict[str, Any]]) -> None:
    stacks.start()
    stacks.pause()
    child = os.fork()
    if not child:
        stacks.forked()
        os._exit(0 if sys.getswitchinterval() == USUAL_S else 1)
    stacks.resume()
    assert os.waitpid(child, 0)[1] == 0
    stacks.stop()
    assert len(written) <= 1


def test_another_thread_than_the_main_one_is_looked_at(
    written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train() -> None:
        here = threading.get_ident(), threading.get_native_id()
        monkeypatch.setattr(recorder, "stepping_thread", lambda: here)
        asleep()

    stacks.start()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    stacks.stop()
    names = {name for stack in written[0]["stacks"] for _, _, name in stack[1] if stack[OFF]}
    assert "asleep" in names


def test_a_function_that_is_just_entered_is_not_blamed_for_what_its_caller_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames: list[Any] = []

    class Frame:
        def __init__(self, at: int, back: object) -> None:
            self.f_lasti, self.f_back = at, back

    caller = Frame(20, None)
    monkeypatch.setattr(sys, "_current_frames", lambda: {1: Frame(2, caller)})
    monkeypatch.setattr(recorder, "stepping_thread", lambda: (1, 1))
    monkeypatch.setattr(blocked, "waits_for", lambda *_, **__: None)
    monkeypatch.setattr(stacks, "_entry", frames.append)
    _look(1, None)
    assert frames == [caller]
