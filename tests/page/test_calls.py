"""The calls on the page: a flame view that can be searched and widened, a tree that opens."""

import pytest

from gapless.model.study import Study
from gapless.page.study_page import study_page
from gapless.report.text.text import clean
from tests.page.browser import Browser, open_drawn
from tests.page.called import HOSTILE_CALL, called_tree, with_calls
from tests.page.reading import Page


@pytest.fixture(scope="module")
def called(recorded: Study) -> Study:
    return with_calls(recorded, called_tree(), called_tree("2 workers together"))


@pytest.fixture(scope="module")
def opened(browser: Browser, called: Study, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    path = tmp_path_factory.mktemp("pages") / "calls.html"
    path.write_text(study_page(called), encoding="utf-8")
    open_drawn(browser, path)
    return browser


def test_bars_lie_within_their_caller_and_begin_where_the_one_before_ends(called: Study) -> None:
    flame, workers = Page(study_page(called)).charts["calls"]
    assert (flame["title"], workers["title"]) == ("main thread", "2 workers together")
    assert flame["name"][:4] == ["train.py", "main", "Module._call_impl", "Conv2d.forward"]
    for bar, caller in enumerate(flame["parent"]):
        end = flame["start"][bar] + flame["total"][bar]
        if caller >= 0:
            assert flame["start"][bar] >= flame["start"][caller]
            assert end <= flame["start"][caller] + flame["total"][caller]
            assert flame["depth"][bar] == flame["depth"][caller] + 1
    assert sum(flame["own"]) == flame["seen"] == flame["total"][0]


def test_the_tree_has_the_names_of_the_report_as_text(called: Study) -> None:
    page = Page(study_page(called))
    assert "main thread: 8 samples of Python stacks stand for 1.00 µs of 4.00 µs" in page.text
    assert "85.0 % 10.0 % main train.py:12" in page.text
    assert clean(HOSTILE_CALL) in page.text
    assert not [tag for tag, values in page.elements if tag == "img" or "onerror" in values]


def test_a_run_without_sampled_stacks_has_no_calls(recorded: Study) -> None:
    page = Page(study_page(with_calls(recorded)))
    assert "calls" not in page.ids() | page.charts.keys()


def test_a_call_is_widened_by_the_keyboard_and_the_whole_comes_back(opened: Browser) -> None:
    span = "gapless.figures.at(-1).x_range.end - gapless.figures.at(-1).x_range.start"
    assert opened.value(span) == 1000
    assert opened.value("Number(document.getElementById('chart-calls').dataset.bars)") == 8
    opened.value("document.getElementById('chart-calls').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        opened.press(key)
    picked = "document.getElementById('picked-call').textContent"
    assert opened.value(picked).startswith("import torch: 0.0 ms, 15.0 %; itself 15.0 %")
    assert opened.value(span) == 150
    opened.click("#calls-out")
    assert opened.value(span) == 1000
    opened.press("ArrowLeft")
    opened.click("#calls-all")
    assert opened.value(span) == 1000
    assert opened.errors == []


def test_a_click_on_a_bar_widens_it(opened: Browser) -> None:
    opened.value("document.getElementById('chart-calls').scrollIntoView(); 1")
    place = opened.value(
        "(() => { const r = document.getElementById('chart-calls').getBoundingClientRect();"
        " return [r.x + r.width * 0.4, r.y + 18 * 1.5 + 5]; })()"
    )
    opened.click_at(*place)
    opened.wait("gapless.flame_state.zoomed === 1")
    assert opened.value("gapless.figures.at(-1).x_range.end") == 850
    opened.click("#calls-all")


def test_a_search_says_what_share_of_the_time_holds_the_text(opened: Browser) -> None:
    opened.value(
        "(() => { const e = document.getElementById('calls-search');"
        " e.value = 'CONV'; e.dispatchEvent(new Event('input')); })()"
    )
    said = opened.value("document.getElementById('picked-call').textContent")
    assert said == "2 calls hold “CONV”: 70.0 %"


def test_the_tree_opens_by_the_keyboard_and_the_flame_shows_other_threads(opened: Browser) -> None:
    opened.value("document.querySelector('#calls details.sheet summary').focus()")
    opened.press("Enter")
    assert opened.value("document.querySelector('#calls .called').offsetHeight") > 0
    opened.value(
        "(() => { const e = document.getElementById('calls-tree');"
        " e.value = '1'; e.dispatchEvent(new Event('change')); })()"
    )
    assert opened.value("gapless.flame_state.tree") == 1
    assert opened.errors == []
    assert len(opened.requests) == 1
