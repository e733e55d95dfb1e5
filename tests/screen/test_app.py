"""The screen, driven by keys, without a terminal."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from gapless import wire
from gapless.errors import RunFolderError
from gapless.live.asking import ask_for_window
from gapless.live.view import LiveView
from gapless.live.watching import RunWatcher
from gapless.store.run import requests
from tests.live.growing import GrowingRun
from tests.screen.views import RUN, UNWATCHED, WATCHED

pytest.importorskip("textual")
from rich.text import Text
from textual.widgets import Static
from textual.worker import WorkerCancelled

from gapless.screen.app import STUDY_THREAD, HelpScreen, WatchApp

if TYPE_CHECKING:
    from textual.pilot import Pilot

Drive = Callable[["Pilot[Any]", WatchApp], Awaitable[None]]


class Still:
    """A watcher that always sees the same."""

    def __init__(self, view: LiveView) -> None:
        self.view = view
        self.looks = 0

    def look(self) -> LiveView:
        self.looks += 1
        return self.view

    def await_window(self, n_windows: int) -> None:
        pass

    def study_when_due(self) -> bool:
        return False


def drive(app: WatchApp, steps: Drive, size: tuple[int, int] = (80, 24)) -> None:
    """Open the screen, look once, and do something with it."""

    async def run() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            await steps(pilot, app)

    asyncio.run(run())


async def settle(pilot: "Pilot[Any]") -> None:
    with suppress(WorkerCancelled):  # the screen was left meanwhile
        await pilot.app.workers.wait_for_complete()
    for thread in threading.enumerate():
        if thread.name == STUDY_THREAD:
            await asyncio.to_thread(thread.join)
    await pilot.pause()


def text_of(app: WatchApp, part: str) -> str:
    return str(app.screen_stack[0].query_one(f"#{part}", Static).content)


def test_the_page_is_drawn() -> None:
    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.pause()
        assert "75 % of each step" in text_of(app, "run")
        assert "1 of 4 batches ready" in text_of(app, "data")
        assert "SM  23 %" in text_of(app, "machine")
        picture = app.export_screenshot()
        assert "where&#160;a&#160;step&#160;goes" in picture

    drive(WatchApp(Still(WATCHED), 60), steps)


def test_a_wide_terminal_has_the_machine_beside_the_run() -> None:
    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        assert app.query_one("#right").display
        assert "NVIDIA A100" in text_of(app, "machine-beside")
        assert text_of(app, "machine") == ""
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        await pilot.pause(0.2)
        assert not app.query_one("#right").display
        assert "NVIDIA A100" in text_of(app, "machine")

    drive(WatchApp(Still(WATCHED), 60), steps, size=(200, 60))


def test_without_a_run_processes_are_listed() -> None:
    async def steps(_: "Pilot[Any]", app: WatchApp) -> None:
        assert "python trai" in text_of(app, "processes")
        assert "\x1b" not in text_of(app, "processes")

    drive(WatchApp(Still(UNWATCHED), 60), steps)


def test_processes_are_sorted_by_a_key() -> None:
    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        assert "kswapd0" not in text_of(app, "processes")
        await pilot.press("s")
        first, second = text_of(app, "processes").splitlines()[1:3]
        assert "9 GiB" not in first
        assert ("kswapd0" in first, "train.py" in second) == (True, True)
        assert app.active_bindings["s"].enabled
        assert "w" not in app.active_bindings

    big = replace(UNWATCHED.processes[1], memory=9 << 40)
    view = replace(UNWATCHED, processes=(UNWATCHED.processes[0], big))
    drive(WatchApp(Still(view), 60), steps)


def test_a_run_has_windows_and_no_order_of_processes() -> None:
    async def steps(_: "Pilot[Any]", app: WatchApp) -> None:
        assert "w" in app.active_bindings
        assert "s" not in app.active_bindings

    drive(WatchApp(Still(WATCHED), 60), steps)


def test_held_it_looks_no_more() -> None:
    watcher = Still(WATCHED)

    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.press("p")
        looks = watcher.looks
        app.look_again()
        await settle(pilot)
        assert watcher.looks == looks
        await pilot.press("p")
        app.look_again()
        await settle(pilot)
        assert watcher.looks == looks + 1

    drive(WatchApp(watcher, 60), steps)


def test_help_opens_and_closes() -> None:
    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("q")
        assert not isinstance(app.screen, HelpScreen)
        assert app.is_running

    drive(WatchApp(Still(WATCHED), 60), steps)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_it_is_left(key: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.press(key)
        await pilot.pause()
        assert app.return_code == 0

    drive(WatchApp(Still(WATCHED), 60), steps)


def test_a_run_that_grows_is_redrawn(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path / "2026-run")
    growing.begin()
    growing.grow(60)

    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        assert "60 steps" in text_of(app, "run")
        growing.grow(20)
        until_s = time.monotonic() + 10  # the latest steps are charged every two seconds
        words, text = ("80 steps", "waits for data"), ""
        while not all(word in text for word in words) and time.monotonic() < until_s:
            app.look_again()
            await settle(pilot)
            await pilot.pause(0.1)
            text = text_of(app, "run")
        assert [word for word in words if word not in text] == []

    drive(WatchApp(RunWatcher(growing.folder), 60), steps)


def test_the_key_asks_the_recorder(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path / "2026-run")
    growing.begin()
    growing.grow(60)
    spool = tmp_path / "gapless-spool-1"
    spool.mkdir()
    manifest = growing.folder / "run.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"spool": str(spool)}))

    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.press("w")
        await pilot.pause()
        await pilot.pause(0.2)
        (toast,) = app.screen.query("Toast").results(Static)
        assert "asked for a window" in str(toast.render())
        asked_step = int((spool / wire.ASKED).read_text().split()[1])
        assert 60 < asked_step < 60 + 3 + 2000 / 40 + 2

    drive(WatchApp(RunWatcher(growing.folder), 60), steps)


def test_a_run_that_is_unreadable_ends_the_screen() -> None:
    class Unreadable(Still):
        def look(self) -> LiveView:
            raise RunFolderError("it is of a later version")

    async def steps(pilot: "Pilot[Any]", app: WatchApp) -> None:
        await pilot.pause()
        assert app.return_code == 2

    drive(WatchApp(Unreadable(WATCHED), 60), steps)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "finished"}, "the run is over"),
        ({"no_windows": "the training has its own profiler"}, "the recorder makes no windows: the"),
        ({"steps": None}, "no step has ended yet"),
    ],
)
def test_why_there_is_no_window(changes: dict[str, Any], words: str) -> None:
    sentence, is_asked = ask_for_window(replace(RUN, **changes))
    assert sentence.startswith(words)
    assert not is_asked


def test_a_window_is_asked_for(tmp_path: Path) -> None:
    requests.ask_for_window(tmp_path, 40)
    requests.ask_for_window(tmp_path, 50)
    assert (tmp_path / wire.ASKED).read_text().endswith(" 50\n")
    assert [path.name for path in (tmp_path / "plan").iterdir()] == ["asked"]


def test_what_cannot_be_asked_is_said() -> None:
    assert ask_for_window(None) == ("no run is watched: there is nothing to ask", False)
    assert ask_for_window(RUN) == ("the run is over: there will be no window", False)


def test_without_colours_bars_are_drawn_as_text_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def styles(app: WatchApp) -> set[str]:
        content = app.screen_stack[0].query_one("#run", Static).content
        assert isinstance(content, Text)
        return {str(span.style) for span in content.spans}

    async def coloured(_: "Pilot[Any]", app: WatchApp) -> None:
        assert {"bold", "red"} <= styles(app)

    async def plain(_: "Pilot[Any]", app: WatchApp) -> None:
        assert styles(app) == {"bold"}

    monkeypatch.delenv("NO_COLOR", raising=False)
    drive(WatchApp(Still(WATCHED), 60), coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    drive(WatchApp(Still(WATCHED), 60), plain)
