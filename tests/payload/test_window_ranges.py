"""What lasts between steps while a window is open: evaluations, collections; and looking after."""

import gc
import json
import signal
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from gapless import wire
from gapless.accounting import partition, sum_ledgers
from gapless.formats import read
from gapless.model.trace import Trace
from gapless.payload.hooks import collector
from gapless.payload.windows import collecting
from tests.payload import watching


def train(tmp_path: Path, *wishes: str, **options: object) -> tuple[dict[str, Any], Path]:
    """Train with windows; give what the training found and its spool."""
    spool = tmp_path / "spool"
    options_json = json.dumps({"windows": True, "most_windows": 1, "any_cost": True, **options})
    completed = watching.run_recorded(
        watching.script_command("train_and_evaluate.py", *wishes),
        tmp_path,
        spool,
        **{wire.OPTIONS: options_json},
    )
    assert (completed.code, completed.err) == (0, "")
    return json.loads(completed.out), spool


def windows(spool: Path) -> list[dict[str, Any]]:
    """Return the last frame of each window."""
    texts = watching.read_logs(spool)["rank0"].texts
    return list({text["number"]: text for kind, text in texts if kind == wire.WINDOW}.values())


def range_lengths(trace: Trace, range_name: str) -> list[int]:
    """Return how long the ranges of a name took, in ns."""
    events = trace.events
    rows = [row for row, name in enumerate(events.name.tolist()) if trace.names[name] == range_name]
    return [int(events.end[row] - events.start[row]) for row in rows]


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Trace]:
    results, spool = train(tmp_path_factory.mktemp("evaluating"))
    first_window, *_ = windows(spool)
    return results, read(str(spool / first_window["path"]))


def test_evaluations_are_ranges_and_idle_time_in_them_is_theirs(
    window: tuple[dict[str, Any], Trace],
) -> None:
    lengths_ns = range_lengths(window[1], "gapless:eval")
    assert len(lengths_ns) == 6
    assert min(lengths_ns) >= 2_000_000
    leaves = sum_ledgers([partition(window[1])], None).leaves
    assert leaves["idle.io_main.eval"] > 4 * 2_000_000 * 0.9  # of four steps: sleep is no operator


def test_collections_are_ranges_and_idle_time_in_them_is_theirs(
    window: tuple[dict[str, Any], Trace],
) -> None:
    results, trace = window
    lengths_ns = range_lengths(trace, "gapless:gc")
    assert len(lengths_ns) == 6
    leaves = sum_ledgers([partition(trace)], None).leaves
    assert min(lengths_ns) * 4 * 0.9 <= leaves["idle.gc"] <= sum(lengths_ns)
    assert results["callbacks"] == 1  # the one that times collections all the while


def test_an_evaluation_does_not_keep_a_window_open_for_longer_than_it_may(tmp_path: Path) -> None:
    results, spool = train(tmp_path, "late")
    assert results["seen to"]
    first_window, *_ = windows(spool)
    assert (first_window["discarded"], first_window["last_step"] - first_window["first_step"]) == (
        None,
        3,
    )
    trace = read(str(spool / first_window["path"]))
    assert len(range_lengths(trace, "gapless:eval")) == 6  # the last one ended with the window


def test_what_a_child_has_saved_is_noted_while_an_evaluation_goes_on(tmp_path: Path) -> None:
    results, spool = train(tmp_path, "child", save="child")
    assert results["seen to"]
    assert windows(spool)[0]["discarded"] is None


@pytest.fixture
def frozen_objects() -> Iterator[None]:
    """Leave out what other tests made: with it each collection would take half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


# An alarm that fires in a weak reference's callback is lost to Python itself: it is tried again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("frozen_objects")
def test_what_a_signal_handler_raises_in_a_collection_is_not_lost() -> None:
    def handler(_number: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    def collect_under_alarm() -> bool:
        before = len(collector._collections.stamps)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        try:
            gc.collect()
        except KeyboardInterrupt:  # before the collection, if the machine is busy
            return len(collector._collections.stamps) > before  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False

    knots: list[list[object]] = [[] for _ in range(200_000)]  # one collection outlasts the alarm
    old_handler, old_callbacks = signal.signal(signal.SIGALRM, handler), gc.callbacks[:]
    gc.callbacks.clear()
    collector._begin()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            ranges = collecting.watch()
            assert ranges is not None
            n_raised = 0
            for _ in range(300):
                n_raised += n_raised < 10 and collect_under_alarm()
            ranges.end()
    finally:
        collector._leave()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        gc.callbacks[:] = old_callbacks
        signal.signal(signal.SIGALRM, old_handler)
    assert knots
    assert n_raised == 10
    events: list[Any] = list(profiler.events() or ())
    assert sum(event.name == collecting.RANGE for event in events) >= 10


def test_collections_that_are_not_watched_are_not_shown() -> None:
    assert not collector.is_between_collections()
    assert collecting.watch() is None
