"""The tab in TensorBoard itself, in a real browser; skipped where there is no TensorBoard."""

import importlib
import importlib.util
import shutil
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.page.browser import start_browser

ROOT: Final = Path(__file__).parents[2]
TRACE: Final = "box_7.1763800000000.pt.trace.json.gz"
# The tab is in a frame, and the page in a frame within it.
FRAMES: Final = (
    "(() => { const walk = (root) => { for (const e of root.querySelectorAll('*')) {"
    " if (e.tagName === 'IFRAME') return e;"
    " const inner = e.shadowRoot && walk(e.shadowRoot); if (inner) return inner; } };"
    " return walk(document)?.contentDocument?.getElementById('page')?.contentDocument; })()"
)


def test_the_entry_point_names_what_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    target = project["entry-points"]["tensorboard_plugins"]["gapless"]
    module, _, name = target.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert f"class {name}(" in Path(spec.origin).read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_the_tab_shows_the_page(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    program: Any = importlib.import_module("tensorboard.program")
    default: Any = importlib.import_module("tensorboard.default")
    plugin: Any = importlib.import_module("gapless.tab.plugin")
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(ROOT / "tests" / "data" / "loader_workers.json.gz", logs / TRACE)
    plugins = [each for each in default.get_plugins() if each is not plugin.GaplessTab]
    board = program.TensorBoard(plugins=[*plugins, plugin.GaplessTab])
    board.configure(argv=["", "--logdir", str(logs), "--port", "0", "--load_fast", "false"])
    address: str = board.launch()
    with start_browser(tmp_path / "browser") as browser:
        browser.call("Page.navigate", url=f"{address}#gapless")
        browser.wait(f"{FRAMES}?.body?.dataset?.drawn")
        assert TRACE in browser.value(f"{FRAMES}.title")
        assert browser.value(f"{FRAMES}.querySelectorAll('#account .group').length") > 3
        assert not [url for url in browser.requests if not url.startswith(address)]


def test_without_runs_and_traces_there_is_no_tab(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    base: Any = importlib.import_module("tensorboard.plugins.base_plugin")
    plugin: Any = importlib.import_module("gapless.tab.plugin")
    assert not plugin.GaplessTab(base.TBContext(logdir=str(tmp_path))).is_active()
    assert not plugin.GaplessTab(base.TBContext()).is_active()
    assert plugin.GaplessTab(base.TBContext()).get_plugin_apps() == {}
    (tmp_path / TRACE).touch()
    assert plugin.GaplessTab(base.TBContext(logdir=str(tmp_path))).is_active()
