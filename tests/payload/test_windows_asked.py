"""Windows that somebody asks for while the training runs."""

from pathlib import Path

import pytest

from gapless import wire
from gapless.payload.windows.plan import PROBE, STACKS, WINDOW, WindowPlan
from gapless.payload.windows.requests import WindowRequests
from gapless.payload.windows.session import Session
from gapless.store.run.requests import ask_for_window

MS = 10**6
S = 1000 * MS


def keep_first_windows(plan: WindowPlan, cost: int = S) -> int:
    """Let the probe, the first window and the one of stacks pass; return the step after them."""
    plan.edge(0, S)
    plan.next = PROBE
    plan.note_opened(5, S)
    plan.note_probe(6, 500, cost)
    for step, kind in ((8, WINDOW), (20, STACKS)):
        plan.next = kind
        plan.note_opened(step, S)
        plan.note_kept(step + 6, 6, cost, cost)
    return 30


def test_a_window_that_is_asked_for_opens_at_once_whatever_it_costs() -> None:
    plan = WindowPlan({}, 1)
    step = keep_first_windows(plan)
    now_ns = 2 * S
    assert plan.edge(step, now_ns) is None  # the others have cost more than a twentieth of this
    plan.ask(step)
    assert plan.edge(step + 1, now_ns + MS) == WINDOW
    plan.note_opened(step + 1, now_ns)
    plan.note_kept(step + 7, 6, S, S)
    assert plan.edge(step + 8, now_ns + 2 * MS) is None  # it was one, and not all that follow


def test_it_takes_the_place_of_none_that_was_planned() -> None:
    plan = WindowPlan({"most_windows": 1}, 1)
    step = keep_first_windows(plan)
    assert plan.next is None
    plan.ask(step)
    plan.ask(step)
    assert (plan.next, plan.most) == (WINDOW, 2)


def test_the_probe_and_trials_come_when_they_come() -> None:
    plan = WindowPlan({}, 1)
    plan.ask(3)
    assert plan.next == PROBE
    assert not plan.asked
    held_plan = WindowPlan({}, 1)
    keep_first_windows(held_plan)
    held_plan.hold()
    held_plan.ask(40)
    assert not held_plan.asked


def test_what_is_asked_is_seen_once(tmp_path: Path) -> None:
    ask_for_window(tmp_path, 7)
    requests = WindowRequests(str(tmp_path))
    assert requests.new_step() is None  # asked before this process began to step
    ask_for_window(tmp_path, 40)
    assert requests.new_step() == 40
    assert requests.new_step() is None
    ask_for_window(tmp_path, 50)
    assert requests.new_step() == 50


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "9999999999999999999 y", "\xff"])
def test_rubbish_asks_for_nothing(text: str, tmp_path: Path) -> None:
    requests = WindowRequests(str(tmp_path))
    assert requests.new_step() is None
    (tmp_path / "plan").mkdir()
    (tmp_path / wire.ASKED).write_text(text, encoding="latin-1")
    assert requests.new_step() is None
    (tmp_path / wire.ASKED).unlink()
    (tmp_path / wire.ASKED).mkdir()
    assert requests.new_step() is None


def test_ranks_open_it_after_the_same_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    fast, slow = Session(str(tmp_path), {}), Session(str(tmp_path), {})
    for session in (fast, slow):
        keep_first_windows(session.plan)
    fast.ask(45, 50)
    slow.ask(35, 50)
    assert (fast.plan.at, slow.plan.at) == (50, 50)
    late = Session(str(tmp_path), {})
    keep_first_windows(late.plan)
    late.ask(51, 50)  # it is past that step: its window would lie beside the others'
    assert not late.plan.asked
