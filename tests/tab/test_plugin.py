"""What TensorBoard asks of the plugin, and its module in a browser, without TensorBoard."""

import importlib
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.page.browser import start_browser
from tests.tab.board import install_stand_in, serve_plugin

DATA: Final = Path(__file__).parents[1] / "data"
TRACE: Final = "box_7.1763800000000.pt.trace.json.gz"
OTHER: Final = "box_8.1763800000000.pt.trace.json.gz"
PAGE: Final = "document.getElementById('page')?.contentDocument"


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a module made here
    return install_stand_in(monkeypatch)


@pytest.fixture
def make_tab(base: Any) -> Any:  # noqa: ANN401
    del base  # it must be there when the plugin is imported
    return importlib.import_module("gapless.tab.plugin").GaplessTab


def test_the_tab_is_there_if_there_is_something_to_show(
    base: Any,  # noqa: ANN401
    make_tab: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    assert not make_tab(base.TBContext()).is_active()
    assert make_tab(base.TBContext()).get_plugin_apps() == {}
    assert not make_tab(base.TBContext(logdir=str(tmp_path))).is_active()
    (tmp_path / TRACE).touch()
    assert make_tab(base.TBContext(logdir=str(tmp_path))).is_active()


def test_the_module_that_draws_the_tab_is_one_of_its_routes(
    base: Any,  # noqa: ANN401
    make_tab: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    tab = make_tab(base.TBContext(logdir=str(tmp_path)))
    metadata = tab.frontend_metadata()
    assert tab.plugin_name == metadata.tab_name == "gapless"
    assert metadata.es_module_path in tab.get_plugin_apps()
    assert all(route.startswith("/") for route in tab.get_plugin_apps())


def test_a_choice_shows_its_page(
    base: Any,  # noqa: ANN401
    make_tab: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in (TRACE, OTHER):
        shutil.copy(DATA / "loader_workers.json.gz", logs / name)
    tab = make_tab(base.TBContext(logdir=str(logs)))
    with serve_plugin(tab) as address, start_browser(tmp_path / "browser") as browser:
        browser.call("Page.navigate", url=address)
        browser.wait(f"{PAGE}?.body?.dataset?.drawn")
        assert browser.value("document.getElementById('entry').options.length") == 3
        browser.value(
            f"(() => {{ const e = document.getElementById('entry'); e.value = '{OTHER}';"
            " e.dispatchEvent(new Event('change')); })()"
        )
        browser.wait(f"{PAGE}?.title.includes('{OTHER}') && {PAGE}.body.dataset.drawn")
        browser.wait("document.getElementById('state').textContent === ''")
        assert not [url for url in browser.requests if not url.startswith(address)]
        assert browser.errors == []


def test_a_folder_without_anything_says_what_would_write_some(
    base: Any,  # noqa: ANN401
    make_tab: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    tab = make_tab(base.TBContext(logdir=str(tmp_path)))
    with serve_plugin(tab) as address, start_browser(tmp_path / "browser") as browser:
        browser.call("Page.navigate", url=address)
        browser.wait("document.body?.textContent.includes('gapless run')")
