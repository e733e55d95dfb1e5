"""Ranks open windows and leave a check at the same steps, however far behind their devices are."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.payload.windows import opened, session
from gapless.payload.windows.session import Session

BEHIND = (0, 2, 5, 8, 1000)
STEP_NS = 10_000_000
Did = list[tuple[str, int]]


class LeftError(Exception):
    """The process ended."""


class Rank:
    """A rank whose device is so many edges behind; what it did, and when."""

    def __init__(self, behind: int, per_step: int) -> None:
        self.behind, self.per_step, self.at = behind, per_step, 0
        self.did: Did = []
        self.held = 0  # steps in windows
        self.detached: list[bool] = []  # what kept windows say of their profiler

    def capture(self, *, stacks: bool) -> SimpleNamespace:
        self.did.append(("stacks" if stacks else "opened", self.at))
        begun = self.at

        def stop() -> SimpleNamespace:
            self.held += self.at - begun
            made.detached = True
            return SimpleNamespace(events=lambda: [0] * self.per_step)

        made = SimpleNamespace(
            cuda=True, all_threads=True, describe=nothing, stop=stop, detached=False
        )
        return made

    def keep(self, frame: dict[str, Any], *_: object, **__: object) -> None:
        self.detached.append(frame["detached"])

    def reached(self) -> SimpleNamespace:
        put = self.at
        return SimpleNamespace(passed=lambda: self.at >= put + self.behind)

    def leave(self, *, several: bool) -> None:
        del several
        self.did.append(("left", self.at))
        raise LeftError


def nothing(*_: object, **__: object) -> None:
    return None


def none(*_: object) -> list[tuple[int, int]]:
    return []


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Did]:
    """Give a function that trains one rank, which forks behind some steps."""
    monkeypatch.setattr(opened.Opened, "watch", nothing)
    for name in ("obstacle", "no_stacks"):
        monkeypatch.setattr(session, name, nothing)
    monkeypatch.setattr(session, "bracket", none)

    def trained(
        rank: Rank,
        forks: Sequence[int],
        world: int = 2,
        ends: Mapping[int, Callable[[Session], None]] | None = None,
        **options: object,
    ) -> Did:
        monkeypatch.setenv("WORLD_SIZE", str(world))
        monkeypatch.setattr(opened, "Capture", rank.capture)
        monkeypatch.setattr(opened, "Reached", rank.reached)
        monkeypatch.setattr(session, "leave", rank.leave)
        mine = Session("spool", options)
        mine.keeping = SimpleNamespace(  # type: ignore[assignment]
            children=[], no_room=nothing, keep=rank.keep, try_out=nothing
        )
        try:
            for rank.at in range(1, 200):
                mine.edge(rank.at, rank.at * STEP_NS)
                if rank.at in forks:
                    mine.cut("the process forked")
                if ends and rank.at in ends:
                    ends[rank.at](mine)
                    break
        except LeftError:
            pass
        return rank.did

    return trained


def test_a_window_tells_that_its_profiler_was_detached(train: Callable[..., Did]) -> None:
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
    train: Callable[..., Did], options: dict[str, Any], forks: Sequence[int]
) -> None:
    first = train(Rank(0, 1000), forks, **options)
    assert ("opened", 12) in first
    assert any(what == "left" for what, _ in first) is ("check" in options)
    for behind in BEHIND:
        for per_step in (400, 410, 1000, 5000):
            assert train(Rank(behind, per_step), forks, **options) == first, (behind, per_step)


@pytest.mark.parametrize(("behind", "per_step"), [(0, 1000), (12, 500), (34, 200), (60, 100)])
def test_a_check_sees_plain_steps_enough_however_long_windows_wait(
    train: Callable[..., Did], behind: int, per_step: int
) -> None:
    rank = Rank(behind, per_step)
    did = train(rank, (), world=1, check=True)
    assert [what for what, _ in did] == ["opened", "opened", "stacks", "left"]
    assert did[-1][1] - rank.held >= 60
    assert rank.held >= 1 + 4 + 1 + behind


def test_a_window_that_but_waits_for_its_device_is_kept_when_it_has_to_end(
    train: Callable[..., Did],
) -> None:
    rank = Rank(1000, 1000)
    kept = list[int]()

    def keep(frame: dict[str, Any], *_: object, **__: object) -> None:
        kept.append(frame["last_step"] - frame["first_step"] + 1)

    def given_way(mine: Session) -> None:
        mine.keeping.keep = keep  # type: ignore[method-assign]
        mine.discard("the training started its own profiler")

    train(rank, (), world=1, ends={18: given_way})
    assert kept == [10]  # six were planned
