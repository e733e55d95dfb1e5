"""Windows of the zoo's records replayed unchanged: each takes as long as it did."""

import json
from pathlib import Path

import pytest

from gapless.accounting import join, partition
from gapless.formats import read
from gapless.replay.graph import build
from gapless.replay.identity import identity
from gapless.replay.nodes import Graph
from gapless.replay.simulate import simulate
from gapless.store.unpack import unpack

RECORDS = Path(__file__).parents[1] / "zoo" / "records"
CASES = sorted(menu.parent.name for menu in RECORDS.glob("*/menu.json"))
SOME_FAST = [
    pytest.param(case, marks=[pytest.mark.slow] if at % 8 else []) for at, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", SOME_FAST)
def test_windows_of_records_are_given_back(case: str, tmp_path: Path) -> None:
    menu = json.loads((RECORDS / case / "menu.json").read_text(encoding="utf-8"))
    run = unpack(RECORDS / case / menu["run"], tmp_path)
    for window in sorted(run.glob("windows/*")):
        if "stacks" in window.name:
            continue
        trace = read(window)
        joined = join(trace)
        graph = build(joined, partition(trace, joined=joined))
        assert isinstance(graph, Graph), graph
        found = identity(graph, simulate)
        assert found.passes, (window.name, found.why_not)
        assert found.error is not None
        assert abs(found.error) < 0.002
        if not graph.on_device:
            assert found.steps == (0.0,) * len(found.steps)
