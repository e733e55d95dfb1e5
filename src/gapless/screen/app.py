"""The screen of ``gapless watch``: the page, redrawn after each look, and a few keys."""

import io
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from gapless.errors import GaplessError
from gapless.live.asking import ask_for_window
from gapless.live.view import LiveView, Watcher
from gapless.report.text.console import Pen, pen_for
from gapless.screen.page import page_sections
from gapless.screen.process_lines import ORDERS

STUDY_THREAD: Final = "gapless study"
_WIDE_CELLS: Final = 150  # from so many columns on the machine stands beside the run
_HISTORY: Final = 60  # looks that curves are of
_MARGIN_CELLS: Final = 2  # a scroll bar
_SECOND_LOOK_S: Final = 0.6  # after the first, which shows no rates: nobody is to wait for them
_HELP: Final = """\
gapless watch

  q          quit; the training goes on
  p          hold the picture, and go on
  w          ask the recorder for a window now: torch.profiler over a few
             steps, which makes the account of a step finer
  s          (without a run) sort processes by processors, memory, disk, GPU
  ?          this help
  arrows     scroll

The page: why steps take as long as they do now; step time and throughput;
where a step goes, of the latest steps and of the run so far; the batches
that are ready, and what each worker does; the machine.

Times and shares of the latest steps are of the last 30 s, as far as they
are recorded. The words are those of gapless report: gapless explain NAME.
"""


class HelpScreen(ModalScreen[None]):
    """What the keys do, and what the page shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "close"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Static { width: auto; max-width: 100%; height: auto; max-height: 100%;
                        padding: 1 2; background: $surface; border: round $primary; }
    """

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static(Text(_HELP))


class WatchApp(App[None]):
    """The page, as wide as the terminal."""

    TITLE = "gapless watch"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("p", "hold", "hold"),
        Binding("w", "window", "a window now"),
        Binding("s", "sort", "sort"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]
    CSS = """
    Screen { layout: vertical; }
    #page { height: 1fr; }
    #page > VerticalScroll { width: 1fr; height: 1fr; }
    #left Static, #right Static { width: 100%; height: auto; margin-bottom: 1; }
    """

    def __init__(self, watcher: Watcher, interval_s: float) -> None:
        super().__init__()
        self.watcher = watcher
        self.interval_s = interval_s
        self.view: LiveView | None = None
        self.is_held = False
        self.order = next(iter(ORDERS))  # of processes
        self.histories: dict[str, deque[float | None]] = {}
        self._is_looking = False
        self._study: threading.Thread | None = None

    def compose(self) -> ComposeResult:
        """Lay the page out: one column, or two where there is room."""
        with Horizontal(id="page"):
            with VerticalScroll(id="left"):
                yield Static(Text("looking …"), id="run")
                yield Static(id="data")
                yield Static(id="machine")
                yield Static(id="processes")
            with VerticalScroll(id="right"):
                yield Static(id="machine-beside")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one("#right").display = False
        self.query_one("#left").focus()
        self.set_interval(self.interval_s, self.look_again)
        self.look_again()

    def on_resize(self) -> None:
        """Draw the page for the new width, once that is known."""
        self.call_after_refresh(self.draw)

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────

    def look_again(self) -> None:
        """Look in a thread: a disk or a driver may keep it waiting, never the keys."""
        if not self._is_looking and not self.is_held:
            self._is_looking = True
            self._look()
            self._begin_study()

    @work(thread=True, group="look")
    def _look(self) -> None:
        is_first = self.view is None
        try:
            self.call_from_thread(self.show, self.watcher.look())
            if is_first:
                time.sleep(_SECOND_LOOK_S)
                view = self.watcher.look()
                if self.is_running:  # else it was left meanwhile
                    self.call_from_thread(self.show, view)
        except GaplessError as error:
            self.call_from_thread(self.exit, message=f"gapless: {error}", return_code=2)
        finally:
            self._is_looking = False

    def _begin_study(self) -> None:
        """Study beside it, in a thread that nobody waits for who leaves."""
        if self._study is None or not self._study.is_alive():
            self._study = threading.Thread(
                target=self.watcher.study_when_due, name=STUDY_THREAD, daemon=True
            )
            self._study.start()

    def show(self, view: LiveView) -> None:
        """Show a moment, unless the picture is held."""
        if self.is_held or view is self.view:
            return
        is_first, self.view = self.view is None, view
        if is_first:
            self.refresh_bindings()
        self._remember(view)
        self.draw()

    def _remember(self, view: LiveView) -> None:
        recent = None if view.run is None else view.run.recent
        points: dict[str, float | None] = {"cpu": view.machine.get("cpu.total")}
        points |= {name: value for name, value in view.machine.items() if name.endswith(".sm")}
        points["step"] = None if recent is None else recent.mean_ns / 1e6
        for name, value in points.items():
            self.histories.setdefault(name, deque(maxlen=_HISTORY)).append(value)

    # ── Drawing ─────────────────────────────────────────────────────────────────────────────────

    def draw(self) -> None:
        """Draw the last moment."""
        view = self.view
        if view is None or not self.is_running:
            return
        is_wide = self.size.width >= _WIDE_CELLS and view.run is not None
        width = (self.size.width // 2 if is_wide else self.size.width) - _MARGIN_CELLS
        histories = {name: tuple(points) for name, points in self.histories.items()}
        sections = page_sections(view, _pen(width), histories, self.order)
        machine = sections.get("machine", [])
        self.query_one("#right").display = is_wide
        self._put("run", sections["run"])
        self._put("data", sections.get("data", []))
        self._put("machine", [] if is_wide else machine)
        self._put("machine-beside", machine if is_wide else [])
        self._put("processes", sections.get("processes", []))

    def _put(self, name: str, lines: Sequence[Text]) -> None:
        widget, text = self.query_one(f"#{name}", Static), Text("\n").join(lines)
        if self.no_color:  # Textual would turn red bars into a grey that nobody sees
            text.spans = [span for span in text.spans if str(span.style).startswith("bold")]
        if widget.content != text:  # what is as it was costs nothing
            n_before = str(widget.content).count("\n")
            widget.display = bool(lines)
            widget.update(text, layout=str(text).count("\n") != n_before)

    # ── Keys ────────────────────────────────────────────────────────────────────────────────────

    def action_hold(self) -> None:
        """Hold the picture, or go on."""
        self.is_held = not self.is_held
        self.sub_title = "held" if self.is_held else ""
        self.notify("held; p goes on" if self.is_held else "goes on", timeout=2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer a window of a run, and an order of processes without one."""
        _ = parameters
        has_run = self.view is not None and self.view.run is not None
        return {"window": has_run, "sort": not has_run}.get(action, True)

    def action_sort(self) -> None:
        """Sort processes by the next of what they take."""
        orders = list(ORDERS)
        self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        self.notify(f"sorted by {self.order}", timeout=2)
        self.draw()

    def action_help(self) -> None:
        """Show what the keys do."""
        self.push_screen(HelpScreen())

    def action_window(self) -> None:
        """Ask the recorder for a window."""
        run = None if self.view is None else self.view.run
        sentence, is_asked = ask_for_window(run)
        if is_asked and run is not None:
            self.watcher.await_window(run.windows + 1)
        self.notify(sentence, severity="information" if is_asked else "warning", timeout=6)


def _pen(width: int) -> Pen:
    """Return a pen that only says how wide lines are: Textual draws them."""
    return pen_for(io.StringIO(), width)
