# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Looks stand for time without bias, whoever lets go of the GIL, and disturb nothing."""

import gc
import hashlib
import math
import os
import random
import socket
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.process_state import STATE
from gapless.payload.stacks import (
    blocked,
    counting,
    gil_switch,
    own_threads,
    snapshots,
    stacks,
)
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
RAN, OFF, KINDS = 2, 3, 4  # of what is written of a stack
_look = stacks._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def stack_frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    stack_frames: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.STACKS
        stack_frames.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(recorder, "options", lambda: {"stacks_hz": 50})
    monkeypatch.setattr(recorder, "stepping_thread", lambda: (None, None))
    monkeypatch.setattr(stacks, "REPORT_NS", 1 << 62)  # all is told at the end
    monkeypatch.setattr(own_threads, "FORK_S", PATIENCE_S)
    yield stack_frames
    stacks.stop()


def look_at() -> None:
    """Stand for a function that is looked at."""


def hold_in_python(end: float) -> None:
    """Hold the GIL, as a loop in Python does."""
    while time.monotonic() < end:
        sum(range(50))


def hold_in_c(end: float) -> None:
    """Hold the GIL for a millisecond at a time, as a large call into C does."""
    while time.monotonic() < end:
        sum(range(100_000))


def release_gil(end: float) -> None:
    """Let go of the GIL again and again, as operators of torch do."""
    while time.monotonic() < end:
        hashlib.sha256(_BYTES)


_BYTES = bytes(20_000)  # 10 to 40 µs
_WORKS = (hold_in_python, hold_in_c, release_gil)
DEVIATIONS = 6  # standard deviations of a sample: chance alone exceeds them once in 10⁹ runs


def work_in_turns(count: int) -> Counter[str]:
    """Work in turns of drawn lengths, in step with no clock; give the time of each part, in ns."""
    spent_ns, random_lengths = Counter[str](), random.Random(0)
    for _ in range(count):
        for work, max_s in zip(_WORKS, (0.02, 0.01, 0.02), strict=True):
            start_ns = time.monotonic_ns()
            work(time.monotonic() + random_lengths.uniform(0, max_s))
            spent_ns[work.__name__] += time.monotonic_ns() - start_ns
    return spent_ns


def take_turns(end: float) -> None:
    """Call at three lines what keeps the GIL, and what lets go of it."""
    while time.monotonic() < end:
        hold_in_python(time.monotonic() + 0.002)
        release_gil(time.monotonic() + 0.002)
        hold_in_c(time.monotonic() + 0.002)


def test_frames_of_a_look_are_of_one_moment(stack_frames: list[dict[str, Any]]) -> None:
    first = take_turns.__code__.co_firstlineno
    line_by_name = {
        work.__name__: first + 3 + index
        for index, work in enumerate((hold_in_python, release_gil, hold_in_c))
    }
    stacks.start()
    take_turns(time.monotonic() + 2)
    stacks.stop()
    mixed, whole = 0, 0
    for count, frames, *_ in stack_frames[0]["stacks"]:
        names = [name for _, _, name in frames]
        inner = names[names.index("take_turns") - 1] if "take_turns" in names else None
        if inner in line_by_name:
            is_whole = frames[names.index("take_turns")][1] == line_by_name[inner]
            mixed, whole = mixed + (not is_whole) * count, whole + is_whole * count
    assert whole
    assert not mixed


def test_looks_stand_for_time_whoever_lets_go_of_the_gil(
    stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def look(elapsed_ns: int, ran_ns: int | None, seen: tuple[object, snapshots.Snapshot]) -> None:
        lengths.append(elapsed_ns)
        _look(elapsed_ns, ran_ns, seen)

    monkeypatch.setattr(stacks, "_look", look)
    stacks.start()
    spent_ns = work_in_turns(60)
    stacks.stop()
    sampled_ns = Counter[str]()
    for stack in stack_frames[0]["stacks"]:
        sampled_ns.update(
            {name: stack[RAN] + stack[OFF] for _, _, name in stack[1] if name in spent_ns}
        )
    for name, ns in spent_ns.items():
        share = ns / spent_ns.total()
        deviation = math.sqrt(share * (1 - share) * sum(ns * ns for ns in lengths)) / sum(lengths)
        assert abs(sampled_ns[name] / sampled_ns.total() - share) < DEVIATIONS * deviation, name
    assert sys.getswitchinterval() == DEFAULT_INTERVAL_S


DEFAULT_INTERVAL_S = sys.getswitchinterval()


def asleep() -> None:
    while not _is_counted("sleep"):
        time.sleep(0.1)


def talk() -> None:
    reader, writer = socket.socketpair()
    with reader, writer:

        def send() -> None:
            wait_until(lambda: _is_counted("socket"))
            writer.send(b"x")

        sender = threading.Thread(target=send)
        sender.start()
        assert reader.recv(1) == b"x"
        sender.join()


def _is_counted(kind: str) -> bool:
    return any(
        entry[KINDS - 1].get(kind, 0) > 50_000_000
        for entry in counting.stacks.counts.copy().values()
    )


def test_what_is_waited_for_is_told_by_its_kind(stack_frames: list[dict[str, Any]]) -> None:
    stacks.start()
    asleep()
    talk()
    stacks.stop()
    kinds: dict[str, set[str]] = {}
    for stack in stack_frames[0]["stacks"]:
        for _, _, name in stack[1]:
            kinds.setdefault(name, set()).update(stack[KINDS])
    assert "sleep" in kinds["asleep"]
    assert "socket" in kinds["talk"]


def test_who_waits_for_the_gil_alone_runs() -> None:
    blocked.prepare()
    thread = threading.Thread(target=lambda: hold_in_python(time.monotonic() + 1.0))
    thread.start()
    kinds = {blocked.waits_for(thread.native_id, runs=True) for _ in range(200)}
    thread.join()
    assert kinds <= {None, blocked.OTHER}, "off the processor now and then, but in no call"
    lock = threading.Lock()
    with lock:
        thread = threading.Thread(target=lambda: lock.acquire() and lock.release())
        thread.start()
        wait_until(lambda: blocked.waits_for(thread.native_id, runs=True) == "lock")
    thread.join()


@pytest.mark.parametrize("moves", [False, True])
def test_what_is_asked_of_a_thread_that_went_on_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, *, moves: bool
) -> None:
    class Frame:
        f_lasti, f_back = 20, None
        f_code = hold_in_c.__code__ if moves else look_at.__code__

    entry: list[Any] = [0, 0, 0, {}]
    monkeypatch.setattr(sys, "_current_frames", lambda: {1: Frame()})
    monkeypatch.setattr(blocked, "waits_for", lambda *_, **__: "sleep")
    monkeypatch.setattr(counting, "_entry", lambda *_: entry)
    _look(7, None, (1, (1, 20, -1, (None, look_at.__code__, 1))))
    assert entry == ([1, 7, 0, {}] if moves else [1, 0, 7, {"sleep": 7}])


@pytest.mark.parametrize(("runs", "kind"), [(True, None), (False, blocked.OTHER)])
def test_where_the_system_tells_of_no_call_the_clock_decides(
    monkeypatch: pytest.MonkeyPatch, *, runs: bool, kind: str | None
) -> None:
    def read(_path: bytes) -> bytes:
        return b""

    monkeypatch.setattr(blocked, "_read", read)
    assert blocked.waits_for(threading.get_native_id(), runs=runs) == kind


def test_what_a_function_holds_dies_with_it_though_it_was_looked_at() -> None:
    held: list[weakref.ref[object]] = []

    def hold() -> None:
        thing = threading.Event()
        held.append(weakref.ref(thing))
        looker = threading.Thread(target=snapshots.take, args=(threading.get_ident(),))
        looker.start()
        looker.join()

    gc.collect()
    gc.disable()  # which would free what a cycle of ours kept
    try:
        hold()
        assert held[0]() is None
    finally:
        gc.enable()


def test_an_interval_that_the_user_sets_stays() -> None:
    try:
        gil_switch.shorten_interval()
        sys.setswitchinterval(0.003)
        gil_switch.restore()
        assert sys.getswitchinterval() == pytest.approx(0.003)
        gil_switch.shorten_interval()
        interval_s = sys.getswitchinterval()  # by the user, in the middle of a look
        gil_switch.restore()
        sys.setswitchinterval(interval_s)
        gil_switch.shorten_interval()
        gil_switch.restore()
        assert sys.getswitchinterval() == pytest.approx(0.003)
    finally:
        sys.setswitchinterval(DEFAULT_INTERVAL_S)


def test_nothing_is_shortened_while_the_interval_is_held() -> None:
    try:
        gil_switch.shorten_interval()
        gil_switch.hold(1.0)
        gil_switch.shorten_interval()
        assert sys.getswitchinterval() == 1.0
        gil_switch.release()
        assert sys.getswitchinterval() == DEFAULT_INTERVAL_S
    finally:
        sys.setswitchinterval(DEFAULT_INTERVAL_S)


def test_random_numbers_and_the_interval_are_the_users_own(
    stack_frames: list[dict[str, Any]],
) -> None:
    state = random.getstate()
    stacks.start()
    hold_in_python(time.monotonic() + 0.1)
    stacks.stop()
    assert random.getstate() == state
    assert sys.getswitchinterval() == DEFAULT_INTERVAL_S
    assert len(stack_frames) <= 1


def test_a_forked_child_has_the_users_interval(stack_frames: list[dict[str, Any]]) -> None:
    stacks.start()
    STATE.before_fork()
    child = os.fork()
    if not child:
        STATE.fork()
        os._exit(0 if sys.getswitchinterval() == DEFAULT_INTERVAL_S else 1)
    STATE.after_fork()
    assert os.waitpid(child, 0)[1] == 0
    stacks.stop()
    assert len(stack_frames) <= 1


def test_another_thread_than_the_main_one_is_looked_at(
    stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train() -> None:
        stepping_thread = threading.get_ident(), threading.get_native_id()
        monkeypatch.setattr(recorder, "stepping_thread", lambda: stepping_thread)
        asleep()

    stacks.start()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    stacks.stop()
    names = {name for stack in stack_frames[0]["stacks"] for _, _, name in stack[1] if stack[OFF]}
    assert "asleep" in names


def test_a_function_that_is_just_entered_is_not_blamed_for_what_its_caller_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[Any] = []
    caller, entered = (look_at.__code__, 7), (hold_in_c.__code__, 1)
    monkeypatch.setattr(blocked, "waits_for", lambda *_, **__: None)
    monkeypatch.setattr(counting, "_entry", lambda frames, _: counted.append(frames))
    _look(1, None, (1, (1, 2, -1, ((None, *entered), *caller))))
    assert counted == [[caller]]
