"""The page in a real browser: nothing complains, nothing is asked of the network, clicks work."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.model.study import Study
from gapless.page.study_page import study_page
from tests.page.browser import Browser, open_drawn
from tests.page.opening import open_pictured
from tests.page.test_study_page import HOSTILE, hostile_trace


@pytest.fixture(scope="module")
def run_page(recorded: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "run.html"
    path.write_text(study_page(recorded), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, run_page: Path) -> Browser:
    """Return the browser with the page open, for what changes none of the others."""
    open_drawn(browser, run_page)
    return browser


def test_it_draws_without_a_complaint_or_a_request(opened: Browser, run_page: Path) -> None:
    assert opened.errors == []
    assert opened.requests == [run_page.resolve().as_uri()]
    assert opened.value("document.querySelectorAll('.chart > *').length") > 2
    assert int(opened.value("document.getElementById('chart-timeline').dataset.bars")) > 100


def test_a_click_opens_a_group_then_a_leaf(opened: Browser) -> None:
    assert opened.value("document.querySelectorAll('details[open]').length") == 0
    opened.click("#account .segment.g-data")
    assert opened.value("document.getElementById('group-data').open")
    opened.click("#group-data details.leaf summary")
    assert opened.value("document.querySelector('#group-data details.leaf').open")
    assert opened.value("document.querySelector('#group-data .pieces li').offsetHeight") > 0


def test_the_keyboard_opens_what_a_click_opens(opened: Browser) -> None:
    opened.value("document.querySelector('#group-compute summary').focus()")
    opened.press("Enter")
    assert opened.value("document.getElementById('group-compute').open")


def test_the_timeline_zooms_by_button_and_by_key(opened: Browser) -> None:
    span = "gapless.timeline_range.end - gapless.timeline_range.start"
    whole = opened.value(span)
    opened.click("[data-moves=in]")
    assert opened.value(span) == pytest.approx(whole / 2)
    opened.value("document.getElementById('chart-timeline').focus()")
    opened.press("+")
    assert opened.value(span) == pytest.approx(whole / 4)
    opened.press("0")
    assert opened.value(span) == pytest.approx(whole)


def test_a_prediction_is_two_timelines_to_one_scale(opened: Browser) -> None:
    assert int(opened.value("document.getElementById('chart-forecast').dataset.bars")) > 100
    titles = opened.value("gapless.columns.forecast.strips.map(strip => strip.title)")
    assert "now: training thread" in titles
    assert "predicted: training thread" in titles
    ends = "Math.max(...gapless.columns.forecast.strips.filter(s => s.title.startsWith('{}'))"
    ends += ".flatMap(s => s.end))"
    now, then = (opened.value(ends.format(word)) for word in ("now", "predicted"))
    assert then < now == opened.value("gapless.columns.forecast.length")


def test_an_outlier_can_be_picked(opened: Browser) -> None:
    number = opened.value(
        "(() => { const i = gapless.columns.steps.outlier.indexOf(1); gapless.pick_step(i);"
        " return gapless.columns.steps.number[i]; })()"
    )
    text = opened.value("document.getElementById('picked-step').textContent")
    assert text.startswith(f"step {number}: ")
    opened.value("document.querySelector('[data-step]').focus()")
    listed = opened.value("document.activeElement.textContent")
    opened.press("Enter")
    text = opened.value("document.getElementById('picked-step').textContent")
    assert text.startswith(f"step {listed}")


def test_tables_sort_and_filter(opened: Browser) -> None:
    opened.value("document.getElementById('table-operators').open = true")
    shown = "#rows-operators tbody tr:not([hidden])"
    cells = f"[...document.querySelectorAll('{shown} td:{{}}')].map(e => e.textContent)"
    opened.click("#rows-operators th:nth-child(3) button")
    figures = [
        float(text.replace(",", ""))
        for text in opened.value(cells.format("nth-child(3)"))
        if text != "–"
    ]
    assert figures == sorted(figures, reverse=True)
    opened.value(
        "(() => { const e = document.querySelector('[data-filters=rows-operators]');"
        " e.value = 'CONV'; e.dispatchEvent(new Event('input')); })()"
    )
    names = opened.value(cells.format("first-child"))
    assert names
    assert all("conv" in name.lower() for name in names)


def test_dark_turns_the_figures_dark(opened: Browser) -> None:
    colour = "gapless.figures[0].left[0].major_label_text_color"
    ink = opened.value(colour)
    for scheme, sign in (("dark", "!="), ("light", "==")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.call("Emulation.setEmulatedMedia", features=features)
        opened.wait(f"{colour} {sign} '{ink}'")


def test_sampled_series_follow_the_axis_of_the_steps(opened: Browser) -> None:
    ranges = "gapless.figures.map(figure => figure.x_range.end)"
    opened.value("gapless.figures[0].x_range.setv({start: 9, end: 12.5})")
    ends = opened.value(ranges)
    assert ends.count(12.5) == 1 + opened.value("gapless.columns.series.length")


def test_paper_is_light_and_shows_the_leaves(opened: Browser) -> None:
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened.call("Emulation.setEmulatedMedia", features=dark)
    ink = "gapless.figures[0].left[0].major_label_text_color"
    opened.wait(f"{ink} === gapless.colour('ink')")
    on_screen = opened.value(ink)
    opened.value("dispatchEvent(new Event('beforeprint'))")
    assert opened.value(ink) != on_screen
    assert opened.value("document.querySelectorAll('.group:not([open])').length") == 0
    widths = "gapless.views.map(view => view.el.getBoundingClientRect().width)"
    assert max(opened.value(widths)) <= 700  # what is wider than a sheet shrinks all the text
    opened.value("dispatchEvent(new Event('afterprint'))")
    assert opened.value(ink) == on_screen
    assert min(opened.value(widths)) > 700
    assert opened.errors == []


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    page = study_page(open_pictured(hostile_trace(tmp_path)))
    path.write_text(page, encoding="utf-8")
    open_drawn(browser, path)
    assert browser.errors == []
    assert browser.requests == [path.resolve().as_uri()]
    assert HOSTILE[0] in browser.value("document.body.textContent")


def test_it_fits_a_narrow_window(browser: Browser, run_page: Path) -> None:
    size = {"height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", width=400, **size)
    open_drawn(browser, run_page)
    assert browser.value("document.documentElement.scrollWidth") == 400
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_steps_are_on_a_logarithmic_scale_where_one_dwarfs_the_others(
    browser: Browser, recorded: Study, run_page: Path, tmp_path: Path
) -> None:
    scale = "gapless.figures[0].y_scale.type"
    open_drawn(browser, run_page)
    assert browser.value(scale) == "LinearScale"
    assert recorded.recorded is not None
    assert recorded.recorded.pace is not None
    lengths_ns = recorded.recorded.pace.lengths_ns.copy()
    lengths_ns[-1] = 100 * int(lengths_ns.max())
    pace = replace(recorded.recorded.pace, lengths_ns=lengths_ns)
    study = replace(recorded, recorded=replace(recorded.recorded, pace=pace))
    path = tmp_path / "wide.html"
    path.write_text(study_page(study), encoding="utf-8")
    open_drawn(browser, path)
    assert browser.value(scale) == "LogScale"
    assert "logarithmic" in browser.value("document.getElementById('steps-title').textContent")
    assert browser.errors == []
