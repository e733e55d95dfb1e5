"""Where compilers and threads come in, a loop runs as it would alone, too."""

import re
from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import Ran, logs, preloaded, script, watched


def undated(ran: Ran) -> Ran:
    """Leave time and process out of torch's own log."""
    return ran._replace(err=re.sub(r"(?m)^([A-Z]\d{4}) \S+ \d+ ", r"\1 ", ran.err))


@pytest.mark.parametrize("name", ["scripted", "broken_off", "compiled_steps"])
def test_compilers_see_nothing_of_ours(name: str, tmp_path: Path) -> None:
    """One could not compile it; the other would count more graphs, and warn of what it meets."""
    command = script("odd_loops.py", name)
    plain = preloaded(command, tmp_path)
    assert plain.code == 0, plain.err
    assert undated(watched(command, tmp_path, tmp_path / "spool")) == undated(plain)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("in_a_thread", "what steps is another thread than that which loaded torch"),
        ("in_threads", "several threads step"),
    ],
)
def test_no_window_opens_where_torchs_profiler_prints_or_breaks(
    name: str, why: str, tmp_path: Path
) -> None:
    command = script("odd_loops.py", name, "300")
    options = '{"check": false, "windows": true}'
    seen = watched(command, tmp_path, tmp_path / "spool", GAPLESS_OPTIONS=options)
    assert seen == preloaded(command, tmp_path)
    (log,) = logs(tmp_path / "spool").values()
    assert why in log.unseen()["windows"]
    assert log.count(wire.BACKWARD) + log.count(wire.FORWARD) >= 300
