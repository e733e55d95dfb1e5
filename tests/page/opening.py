"""Studies with what only a page draws."""

from pathlib import Path

from gapless.model.study import Study
from gapless.study import Options, open_study


def open_pictured(path: Path) -> Study:
    return open_study([path], Options(cache=False, pictured=True))
