"""Where compilers and threads come in, a loop runs as it would alone, too."""

import re
from pathlib import Path

import pytest

from gapless import wire
from tests.payload.watching import (
    ScriptResult,
    read_logs,
    run_preloaded,
    run_recorded,
    script_command,
)

_ELSEWHERE = "what steps is another thread than that which loaded torch"


def drop_dates(output: ScriptResult) -> ScriptResult:
    """Leave time and process out of torch's own log."""
    return output._replace(err=re.sub(r"(?m)^([A-Z]\d{4}) \S+ \d+ ", r"\1 ", output.err))


@pytest.mark.parametrize(
    "names", ["scripted,compiled_steps", pytest.param("broken_off", marks=pytest.mark.slow)]
)
def test_compilers_see_nothing_of_ours(names: str, tmp_path: Path) -> None:
    """One could not compile it; the other would count more graphs, and warn of what it meets."""
    command = script_command("odd_loops.py", names)
    plain = run_preloaded(command, tmp_path)
    assert plain.code == 0, plain.err
    assert drop_dates(run_recorded(command, tmp_path, tmp_path / "spool")) == drop_dates(plain)


@pytest.mark.parametrize(
    ("name", "reasons", "min_steps"),
    [
        ("in_a_thread", (_ELSEWHERE,), 300),
        # One of the threads may have stepped often enough before the others began; a call counts as
        # an inner one while another thread is within one, so that many of the 1200 are not marked.
        ("in_threads", ("several threads step", _ELSEWHERE), 30),
    ],
)
def test_no_window_opens_where_torchs_profiler_prints_or_breaks(
    name: str, reasons: tuple[str, ...], min_steps: int, tmp_path: Path
) -> None:
    command = script_command("odd_loops.py", name, "300")
    options = '{"check": false, "windows": true}'
    recorded = run_recorded(command, tmp_path, tmp_path / "spool", GAPLESS_OPTIONS=options)
    assert recorded == run_preloaded(command, tmp_path)
    (log,) = read_logs(tmp_path / "spool").values()
    unobserved = log.unobserved_reasons()["windows"]
    assert any(reason in unobserved for reason in reasons)
    assert log.count(wire.BACKWARD) + log.count(wire.FORWARD) >= min_steps
