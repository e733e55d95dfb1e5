"""The real traces of ``tests/data``, by name, and the recorded run, packed.

Five are files as Kineto wrote them, for the tests of the reader; of the others, packed columns are
kept, which hold all that gapless reads of them (``python -m benchmarks.pack_records --traces``).
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from gapless.capture.reading import read_trace
from gapless.model.trace import Trace
from gapless.store.run.unpack import unpack

_DATA: Final = Path(__file__).parent / "data"


def _paths_by_name(folder: Path) -> dict[str, Path]:
    paths = sorted((*folder.glob("*.json.gz"), *folder.glob("*.json.columns")))
    return {path.name.partition(".json")[0]: path for path in paths}


TRACES: Final = _paths_by_name(_DATA)
RECORDED_RUN: Final = _DATA / "runs" / "2026-11-21T17-12-53-8a06.tar.zst"
OPENED: Final = _paths_by_name(_DATA / "opened")
KINETO_FILES: Final = tuple(
    path for path in (*TRACES.values(), *OPENED.values()) if path.suffix == ".gz"
)


@cache
def recorded_run() -> Path:
    """Return the folder of the recorded run, unpacked for this process."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return unpack(RECORDED_RUN, folder)


def read_fixture(name: str) -> Trace:
    """Return the trace of that name, whichever form it is kept in."""
    return read_trace(TRACES[name], processes=1)
