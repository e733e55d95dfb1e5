"""How soon the page of a run is there, in a browser: ``python -m benchmarks.page --out FILE``.

Three pages in turns (A B C C B A), each in a browser that has just been started and opens it once:
one with all that a page can have, the run that is kept with the tests (steps, sampled series, a
prediction as two timelines) with a timeline of a hundred thousand events and a flame view of seven
hundred calls; one of two ranks' traces with as many events; and one of the few steps that these
were grown from. Of each: when its text is painted, and when all of its figures are drawn.
Docs: benchmarks/README.md.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.machine import machine, versions, write_result
from benchmarks.make_big_trace import grow_trace, read_text, split_events
from gapless.model.calls import CallNode, CallTree
from gapless.model.picture import Picture
from gapless.model.study import Study
from gapless.page.calls import flame_columns
from gapless.page.study_page import study_page
from gapless.store.run.unpack import unpack
from gapless.study import Options, open_study
from tests.page.browser import find_browser, start_browser
from tests.traces import RECORDED_RUN

ROOT: Final = Path(__file__).parents[1]
BASES: Final = tuple(ROOT / f"tests/data/two_ranks.rank{rank}.json.gz" for rank in (0, 1))
EVENTS: Final = 100_000
CALLS: Final = 700
# Times are taken in the page, from the start of its navigation.
WATCH: Final = (
    "new MutationObserver((_, it) => { if (document.body?.dataset.drawn) {"
    " window.drawn_ms = performance.now(); it.disconnect(); } })"
    ".observe(document, {subtree: true, childList: true, attributes: true});"
)
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True)
class PageMade:
    """A page on disk, and what is in it."""

    name: str
    path: Path
    events: int  # of the trace
    bars: int  # of the timeline, as many as a page draws
    bars_of_prediction: int  # of its two timelines
    calls: int  # bars of the flame view
    ranks: int
    bytes: int
    study_s: float
    writing_s: float


@dataclass(frozen=True)
class Opening:
    """A page opened once: seconds from the start of the navigation."""

    page: str
    painted_s: float | None
    drawn_s: float


def grow_base(base_file: Path, out: Path, events: int) -> Path:
    """Write a trace of at least so many events."""
    text = read_text(base_file)
    base = split_events(text)
    copies = -(-events // len(base.events)) + 1
    out.write_bytes(b"".join(grow_trace(base, len(text) * copies)))
    return out


def study_traces(paths: Sequence[Path]) -> Study:
    """Study traces, or a run, with what a page draws."""
    return open_study(paths, Options(cache=False, pictured=True))


def study_whole(trace: Path) -> Study:
    """Return the study of the kept run, with the timeline of a trace, and with calls."""
    with tempfile.TemporaryDirectory() as folder:
        run = study_traces([unpack(RECORDED_RUN, Path(folder))])
    large = study_traces([trace])
    nodes = tuple(
        CallNode((number - 1) // 4, "train.py", f"function_{number}", number, None, 1_000, 1)
        for number in range(CALLS)
    )
    tree = CallTree("main thread", nodes, CALLS * 1_000, 0, 0, 0)
    if run.recorded is None:
        raise ValueError(RECORDED_RUN)
    recorded = replace(run.recorded, calls=(tree,))
    return replace(run, health=large.health, picture=large.picture, recorded=recorded)


def make_page(name: str, make: Callable[[], Study], folder: Path) -> PageMade:
    """Make a study, and write its page."""
    start = time.perf_counter()
    study = make()
    studied = time.perf_counter()
    path = folder / f"{name}.html"
    path.write_text(study_page(study), encoding="utf-8")
    written = time.perf_counter()
    recorded, forecast = study.recorded, study.forecast
    pictures = () if forecast is None else (forecast.before, forecast.after)
    flames = [] if recorded is None else flame_columns(recorded.calls)
    return PageMade(
        name=name,
        path=path,
        events=study.health.events,
        bars=count_bars(() if study.picture is None else (study.picture,)),
        bars_of_prediction=count_bars(pictures),
        calls=sum(len(flame["name"]) for flame in flames),
        ranks=len(study.run.ranks),
        bytes=path.stat().st_size,
        study_s=round(studied - start, 3),
        writing_s=round(written - studied, 3),
    )


def count_bars(pictures: Sequence[Picture]) -> int:
    """Return how many bars timelines have."""
    return sum(len(strip.start) for picture in pictures for strip in picture.strips)


def open_once(page: PageMade, folder: Path) -> Opening:
    """Open a page in a fresh browser."""
    with start_browser(folder) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        browser.open(page.path)
        browser.wait("window.drawn_ms")
        drawn_ms, painted_ms = browser.value("window.drawn_ms"), browser.value(PAINTED)
    painted_s = None if painted_ms is None else round(painted_ms / 1e3, 3)
    return Opening(page.name, painted_s, round(drawn_ms / 1e3, 3))


def summarize(openings: Sequence[Opening], name: str) -> dict[str, Any]:
    """Return the median, the shortest and the longest of what was measured of a page."""
    own = [opening for opening in openings if opening.page == name]
    painted = [opening.painted_s for opening in own if opening.painted_s is not None]
    drawn = [opening.drawn_s for opening in own]
    return {
        "openings": len(own),
        **{
            key: {
                "median": round(statistics.median(values), 3),
                "shortest": min(values),
                "longest": max(values),
            }
            for key, values in (("painted_s", painted), ("drawn_s", drawn))
            if values
        },
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of A B C C B A")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    version = subprocess.run(
        [find_browser(), "--version"], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        large = grow_base(BASES[0], folder / "large.json", EVENTS)
        ranks = [
            grow_base(base, folder / f"rank{rank}.json", EVENTS // len(BASES))
            for rank, base in enumerate(BASES)
        ]
        pages = (
            make_page("whole", lambda: study_whole(large), folder),
            make_page("ranks", lambda: study_traces(ranks), folder),
            make_page("small", lambda: study_traces(BASES[:1]), folder),
        )
        turns = [pages[index] for _ in range(arguments.rounds) for index in (0, 1, 2, 2, 1, 0)]
        load_before = os.getloadavg()[0]
        openings = [
            open_once(page, folder / f"profile-{number}") for number, page in enumerate(turns)
        ]
    result = {
        "machine": machine(),
        "load": {"before": load_before, "after": os.getloadavg()[0]},  # of a minute, ours in it
        "browser": version.stdout.strip(),
        "versions": versions(("bokeh", "jinja2")),
        "pages": {
            page.name: {
                **{
                    key: value for key, value in asdict(page).items() if key not in {"name", "path"}
                },
                **summarize(openings, page.name),
            }
            for page in pages
        },
        "openings": [asdict(opening) for opening in openings],
    }
    print(write_result(result, arguments.out))


if __name__ == "__main__":
    main()
