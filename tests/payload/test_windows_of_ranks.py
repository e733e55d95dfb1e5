"""Ranks open windows and leave a check at the same steps, however far behind their devices are."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.payload.windows import open_window, session
from gapless.payload.windows.session import Session

BEHIND = (0, 2, 5, 8, 1000)
STEP_NS = 10_000_000
LATER_NS = 10**13  # for a check, time enough has passed
Actions = list[tuple[str, int]]


class LeftError(Exception):
    """The process ended."""


class Rank:
    """A rank whose device is so many edges behind; what it did, and when."""

    def __init__(self, behind: int, per_step: int) -> None:
        self.behind, self.per_step, self.step = behind, per_step, 0
        self.actions: Actions = []
        self.n_window_steps = 0  # steps in windows
        self.detached: list[bool] = []  # what kept windows say of their profiler

    def capture(self, *, stacks: bool) -> SimpleNamespace:
        self.actions.append(("stacks" if stacks else "opened", self.step))
        start_step = self.step

        def stop() -> SimpleNamespace:
            self.n_window_steps += self.step - start_step
            profiler.detached = True
            return SimpleNamespace(events=lambda: [0] * self.per_step)

        profiler = SimpleNamespace(
            cuda=True, all_threads=True, describe=do_nothing, stop=stop, detached=False
        )
        return profiler

    def keep(self, frame: dict[str, Any], *_: object, **__: object) -> None:
        self.detached.append(frame["detached"])

    def device_mark(self) -> SimpleNamespace:
        mark_step = self.step
        return SimpleNamespace(has_passed=lambda: self.step >= mark_step + self.behind)

    def leave(self, *, several: bool) -> None:
        del several
        self.actions.append(("left", self.step))
        raise LeftError


def do_nothing(*_: object, **__: object) -> None:
    return None


def no_intervals(*_: object) -> list[tuple[int, int]]:
    return []


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Actions]:
    """Return a function that trains one rank, which forks behind some steps."""
    monkeypatch.setattr(open_window.OpenWindow, "watch", do_nothing)
    for name in ("obstacle", "no_stacks"):
        monkeypatch.setattr(session, name, do_nothing)
    monkeypatch.setattr(session, "bracket", no_intervals)

    def train_rank(
        rank: Rank,
        forks: Sequence[int],
        world: int = 2,
        ends: Mapping[int, Callable[[Session], None]] | None = None,
        **options: object,
    ) -> Actions:
        monkeypatch.setenv("WORLD_SIZE", str(world))
        monkeypatch.setattr(open_window, "ProfilerCapture", rank.capture)
        monkeypatch.setattr(open_window, "DeviceMark", rank.device_mark)
        monkeypatch.setattr(session, "leave", rank.leave)
        # A busy machine makes windows dear, and a dear one comes later: here time goes by steps.
        monkeypatch.setattr(session.recorder, "now", lambda: LATER_NS + rank.step * STEP_NS)
        rank_session = Session("spool", options)
        rank_session.keeping = SimpleNamespace(  # type: ignore[assignment]
            children=[], no_room=do_nothing, keep=rank.keep, try_out=do_nothing
        )
        try:
            for rank.step in range(1, 200):
                rank_session.edge(rank.step, rank.step * STEP_NS)
                if rank.step in forks:
                    rank_session.cut("the process forked")
                if ends and rank.step in ends:
                    ends[rank.step](rank_session)
                    break
        except LeftError:
            pass
        return rank.actions

    return train_rank


def test_a_closed_window_holds_no_event_of_the_device(
    train: Callable[..., Actions], monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[open_window.OpenWindow] = []

    def keep(kind: str, number: int, step: int, steps: int) -> open_window.OpenWindow:
        windows.append(open_window.OpenWindow(kind, number, step, steps))
        return windows[-1]

    monkeypatch.setattr(session, "OpenWindow", keep)
    train(Rank(3, 400), (), check=True)
    assert windows
    assert all(window.reached is None for window in windows)


def test_a_window_tells_that_its_profiler_was_detached(train: Callable[..., Actions]) -> None:
    rank = Rank(0, 400)
    train(rank, (), check=True)
    assert rank.detached
    assert all(rank.detached)


@pytest.mark.parametrize(
    "forks",
    [(), (13,), (14,), (31,), (32,), (33,), range(14, 200, 14), range(16, 200, 16)],
    ids=str,
)
@pytest.mark.parametrize(
    "options", [{"check": True}, {"check": True, "window_steps": 2}, {}, {"every": 25}], ids=str
)
def test_all_ranks_do_the_same_at_the_same_steps(
    train: Callable[..., Actions], options: dict[str, Any], forks: Sequence[int]
) -> None:
    expected = train(Rank(0, 1000), forks, **options)
    assert ("opened", 12) in expected
    assert any(action == "left" for action, _ in expected) is ("check" in options)
    for behind in BEHIND:
        for per_step in (400, 410, 1000, 5000):
            assert train(Rank(behind, per_step), forks, **options) == expected, (behind, per_step)


@pytest.mark.parametrize(("behind", "per_step"), [(0, 1000), (12, 500), (34, 200), (60, 100)])
def test_a_check_sees_plain_steps_enough_however_long_windows_wait(
    train: Callable[..., Actions], behind: int, per_step: int
) -> None:
    rank = Rank(behind, per_step)
    actions = train(rank, (), world=1, check=True)
    assert [action for action, _ in actions] == ["opened", "opened", "stacks", "left"]
    assert actions[-1][1] - rank.n_window_steps >= 60
    assert rank.n_window_steps >= 1 + 4 + 1 + behind


def test_a_window_that_but_waits_for_its_device_is_kept_when_it_has_to_end(
    train: Callable[..., Actions],
) -> None:
    rank = Rank(1000, 1000)
    n_kept_steps = list[int]()

    def keep(frame: dict[str, Any], *_: object, **__: object) -> None:
        n_kept_steps.append(frame["last_step"] - frame["first_step"] + 1)

    def give_way(rank_session: Session) -> None:
        rank_session.keeping.keep = keep  # type: ignore[method-assign]
        rank_session.discard("the training started its own profiler")

    train(rank, (), world=1, ends={18: give_way})
    assert n_kept_steps == [10]  # six were planned
