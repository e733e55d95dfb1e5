"""The studies that most tests of pages are about, made once."""

from pathlib import Path
from typing import Final

import pytest

from gapless.model.study import Study
from tests.page.opening import open_pictured

DATA: Final = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def traced() -> Study:
    return open_pictured(DATA / "eager_launch_bound.json.columns")


@pytest.fixture(scope="session")
def recorded() -> Study:
    (folder,) = [path for path in (DATA / "runs").iterdir() if path.is_dir()]
    return open_pictured(folder)
