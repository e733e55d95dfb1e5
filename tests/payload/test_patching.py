# ruff: noqa: S301, SLF001
# pyright: reportPrivateUsage=false
"""What is replaced works as before, shows nothing of ours, and is put back."""

import functools
import inspect
import os
import pickle
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gapless.payload import boot, patching
from gapless.payload.process_state import STATE


class Owner:
    """Something with functions to replace."""

    def plain(self, value: int = 1) -> int:
        """Double."""
        if value < 0:
            raise ValueError(value)
        return value * 2

    @staticmethod
    def still(value: int) -> int:
        return value + 1

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    def warn(self) -> None:
        warnings.warn("look here", stacklevel=2)


class Child(Owner):
    """Inherits everything."""


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    before = {owner: dict(vars(owner)) for owner in (Owner, Child)}
    yield
    patching.restore_all()
    patching.resume()
    STATE.notes.clear()
    for owner, attributes in before.items():
        assert {name: vars(owner)[name] for name in attributes} == attributes
        assert set(vars(owner)) == set(attributes)


def watch(owner: type, name: str, calls: list[Any]) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        calls.append((args[1:], kwargs))
        return "state"

    def after(state: str, _args: object, result: object, raised: object) -> None:
        calls.append((state, result, type(raised)))

    patching.replace(owner, name, patching.around("test", before, after))


def test_the_original_is_called_between_ours_and_its_result_given() -> None:
    calls: list[Any] = []
    watch(Owner, "plain", calls)
    assert Owner().plain(value=4) == 8
    assert calls == [((), {"value": 4}), ("state", 8, type(None))]
    assert str(inspect.signature(Owner.plain)) == "(self, value: int = 1) -> int"
    assert Owner.plain.__doc__ == "Double."
    assert pickle.loads(pickle.dumps(Owner.plain)) is Owner.plain


def test_who_asks_for_the_arguments_by_an_older_way_gets_them_too() -> None:
    watch(Owner, "plain", [])

    assert inspect.getfullargspec(Owner.plain).args == ["self", "value"]


def test_ways_to_end_a_process_can_still_be_pickled() -> None:
    before = os._exit, os.execv
    boot._watch_exit()
    try:
        assert os._exit is not before[0]
        assert pickle.loads(pickle.dumps(os._exit)) is os._exit
        assert pickle.loads(pickle.dumps(os.execv)) is os.execv
    finally:
        patching.restore_all()
    assert (os._exit, os.execv) == before
    assert pickle.loads(pickle.dumps(os._exit)) is os._exit


def test_static_and_class_methods_and_inherited_ones_stay_what_they_are() -> None:
    calls: list[Any] = []
    watch(Owner, "still", calls)
    watch(Owner, "of_class", calls)
    watch(Child, "plain", calls)
    assert (Owner.still(1), Owner().still(2), Child.of_class(), Child().plain(3)) == (
        2,
        3,
        "Child",
        6,
    )
    assert len(calls) == 8
    assert Owner().plain(1) == 2
    assert len(calls) == 8


@pytest.mark.skipif(sys.version_info < (3, 11), reason="our frame stays in tracebacks before 3.11")
def test_tracebacks_hold_no_frame_of_ours() -> None:
    def format_error(function: Callable[..., object]) -> str:
        try:
            function()
        except ValueError:
            return traceback.format_exc()
        return ""

    def call_negative() -> object:
        return Owner().plain(-1)

    plain = format_error(call_negative)
    calls: list[Any] = []
    watch(Owner, "plain", calls)
    assert format_error(call_negative) == plain
    assert calls[-1] == ("state", None, ValueError)


def test_a_warning_names_the_line_that_it_would_name() -> None:
    watch(Owner, "warn", [])
    with pytest.warns(UserWarning, match="look here") as caught:
        Owner().warn()
    assert caught[0].filename == __file__


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_fails_in_ours_is_noted_and_after_three_times_left_off(moment: str) -> None:
    calls: list[int] = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise RuntimeError("ours")

    actions = (fail, None) if moment == "before" else (None, fail)
    patching.replace(Owner, "plain", patching.around("hook", *actions))
    assert [Owner().plain(2) for _ in range(5)] == [4] * 5
    assert len(calls) == 3
    assert STATE.notes == [("hook", "RuntimeError('ours')")] * 3


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, TimeoutError, ValueError])
def test_what_a_signal_handler_raises_in_ours_reaches_the_user(kind: type[BaseException]) -> None:
    def handler(_number: int, _frame: types.FrameType | None) -> None:
        raise kind("the user's")

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGUSR1)

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        patching.replace(Owner, "plain", patching.around("hook", interrupt, None))
        with pytest.raises(kind, match="the user's"):
            Owner().plain(1)
        with pytest.raises(kind, match="the user's"):
            patching.guard("guard")(interrupt)()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert STATE.notes == []


@pytest.mark.parametrize("hidden", ["partial", "gone"])
def test_what_a_handler_raises_that_is_hard_to_find_reaches_the_user_too(hidden: str) -> None:
    def handler(_argument: object, _number: int, _frame: types.FrameType | None) -> None:
        if hidden == "gone":
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise TimeoutError("the user's")

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGUSR1)

    def plain(number: int, frame: types.FrameType | None) -> None:
        handler("told", number, frame)

    partial = functools.partial(handler, "told")
    old = signal.signal(signal.SIGUSR1, partial if hidden == "partial" else plain)
    try:
        with pytest.raises(TimeoutError, match="the user's"):
            patching.guard("guard")(interrupt)()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert STATE.notes == []


def test_what_somebody_replaced_after_us_is_left_and_ours_is_inert() -> None:
    calls: list[Any] = []
    original = Owner.plain
    watch(Owner, "plain", calls)
    replaced_plain = Owner.plain

    def users_plain(self: Owner, value: int = 1) -> int:
        return replaced_plain(self, value)

    Owner.plain = users_plain
    patching.restore_all()
    assert Owner.plain is users_plain
    assert Owner().plain(3) == 6
    assert calls == []
    Owner.plain = original


def test_a_function_that_fails_often_is_left_off_until_recording_begins_again() -> None:
    calls: list[int] = []

    @patching.guard("guard")
    def fail() -> None:
        calls.append(1)
        raise RuntimeError("ours")

    assert [fail() for _ in range(5)] == [None] * 5
    assert len(calls) == 3
    patching.resume()
    fail()
    assert len(calls) == 4


def test_that_an_object_torn_down_with_the_interpreter_gets_what_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    watch(Owner, "plain", calls)
    patching.end()
    for name in ("tracebacks", "STATE", "sys"):  # as the interpreter clears them at the end
        monkeypatch.setattr(patching, name, None)
    assert Owner().plain(2) == 4
    with pytest.raises(ValueError, match="-1"):
        Owner().plain(-1)
    assert not calls


def test_that_a_second_ctrl_c_while_the_process_ends_leaves_every_hook_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    calls: list[Any] = []
    watch(Owner, "plain", calls)
    monkeypatch.setattr(boot, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        boot._at_exit()
    assert Owner().plain(2) == 4
    assert not calls
