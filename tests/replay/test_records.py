"""Windows of the zoo's records replayed unchanged: each takes as long as it did."""

import json
from pathlib import Path

import pytest

from gapless.accounting import join_trace, partition
from gapless.capture.reading import read_trace
from gapless.replay.graph.build import build_graph
from gapless.replay.graph.nodes import Graph
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.identity import check_identity
from gapless.store.run.unpack import unpack

RECORDS = Path(__file__).parents[1] / "zoo" / "records"
CASES = sorted(menu.parent.name for menu in RECORDS.glob("*/menu.json"))
SOME_FAST = [
    pytest.param(case, marks=[pytest.mark.slow] if index % 8 else [])
    for index, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", SOME_FAST)
def test_windows_of_records_are_given_back(case: str, tmp_path: Path) -> None:
    menu = json.loads((RECORDS / case / "menu.json").read_text(encoding="utf-8"))
    run = unpack(RECORDS / case / menu["run"], tmp_path)
    for window in sorted(run.glob("windows/*")):
        if "stacks" in window.name:
            continue
        trace = read_trace(window)
        joined_trace = join_trace(trace)
        graph = build_graph(joined_trace, partition(trace, joined_trace=joined_trace))
        assert isinstance(graph, Graph), graph
        check = check_identity(graph, simulate)
        assert check.passes, (window.name, check.refusal)
        assert check.error is not None
        assert abs(check.error) < 0.002
        if not graph.on_device:
            assert check.steps == (0.0,) * len(check.steps)
