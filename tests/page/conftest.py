"""The studies that most tests of pages are about, made once."""

from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from gapless.model.study import Study
from gapless.store.run.unpack import unpack
from tests.page.browser import Browser, start_browser
from tests.page.opening import open_pictured
from tests.traces import RECORDED_RUN

DATA: Final = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def traced() -> Study:
    return open_pictured(DATA / "eager_launch_bound.json.columns")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return open_pictured(unpack(RECORDED_RUN, tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    with start_browser(folder) as browser:
        yield browser
