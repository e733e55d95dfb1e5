"""The real traces of ``tests/data``, by name.

Eight are files as Kineto wrote them, for the tests of the reader; of the others, packed columns are
kept, which hold all that gapless reads of them (``python -m benchmarks.pack_records --traces``).
"""

from pathlib import Path
from typing import Final

from gapless.capture.reading import read_trace
from gapless.model.trace import Trace

_DATA: Final = Path(__file__).parent / "data"
KINETO_FILES: Final = tuple(sorted(_DATA.glob("*.json.gz")))
TRACES: Final = {
    path.name.partition(".json")[0]: path
    for path in sorted((*KINETO_FILES, *_DATA.glob("*.json.columns")))
}
OPENED: Final = {
    path.name.partition(".json")[0]: path
    for path in sorted((_DATA / "opened").glob("*.json.columns"))
}


def read_fixture(name: str) -> Trace:
    """Return the trace of that name, whichever form it is kept in."""
    return read_trace(TRACES[name], processes=1)
