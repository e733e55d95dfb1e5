"""Traces that torch records here, by both of its writers, against a plain reading of the JSON."""

import gzip
import json
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from gapless.formats import read
from gapless.model import category as c
from tests.formats.writing import health_counts, spans
from tests.traces import KINETO_FILES


@pytest.fixture(scope="module")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record two steps of a small training with shapes, memory and stacks."""
    folder = tmp_path_factory.mktemp("recorded")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        for _ in range(2):
            with record_function('my "quoted" \\ é range'):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()
    profiler.export_chrome_trace(str(folder / "python.json"), use_python_export=True)
    profiler.export_chrome_trace(str(folder / "cpp.json"))  # gives up what it has: the last
    (folder / "cpp.json.gz").write_bytes(gzip.compress((folder / "cpp.json").read_bytes()))
    return folder


def _read_json(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    document: dict[str, Any] = json.loads(data, parse_float=Decimal, parse_int=Decimal)
    return document["traceEvents"]


def _ns(value: Decimal) -> int:
    return int((value * 1000).to_integral_value(ROUND_HALF_EVEN))


def _check_against_json(path: Path) -> None:
    entries = _read_json(path)
    complete = [e for e in entries if e["ph"] == "X" and e["cat"] != "cpu_instant_event"]
    trace = read(path, processes=1)
    assert trace.written_events == len(entries)
    assert spans(trace) == [
        (e["name"], _ns(e["ts"]), _ns(e["ts"]) + _ns(e["dur"])) for e in complete
    ]
    assert health_counts(trace) == ({}, {})
    assert not trace.health.truncated
    allocations = [e for e in entries if e["name"] == "[memory]"]
    assert trace.memory.time.tolist() == [_ns(e["ts"]) for e in allocations]
    assert trace.memory.bytes.tolist() == [e["args"]["Bytes"] for e in allocations]
    events = trace.events
    tracks: list[int] = events.track.tolist()
    details: list[int] = events.detail.tolist()
    for row, entry in enumerate(complete):
        track = trace.tracks[tracks[row]]
        assert (track.pid, track.tid) == (entry["pid"], entry["tid"])
        args = entry.get("args", {})
        if events.category[row] == c.CPU_OP and "Input Dims" in args:
            shape = trace.shapes[details[row]]
            assert shape.types == tuple(args["Input type"])
            assert _lists(shape.dims) == args["Input Dims"]
            assert events.correlation[row] == args.get("Sequence number", -1)
        elif events.category[row] in c.ACTIVITIES:
            gpu_row = details[row]
            assert trace.gpu.stream[gpu_row] == args["stream"]
            assert trace.gpu.device[gpu_row] == args["device"]
            assert events.correlation[row] == args["correlation"]


def _lists(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    return [_lists(entry) for entry in cast("tuple[object, ...]", value)]


@pytest.mark.parametrize("name", ["cpp.json", "cpp.json.gz", "python.json"])
def test_reads_what_torch_records_as_a_plain_reading_does(trace_folder: Path, name: str) -> None:
    _check_against_json(trace_folder / name)


@pytest.mark.parametrize("path", KINETO_FILES, ids=lambda path: path.name.split(".json")[0])
def test_reads_the_fixtures_as_a_plain_reading_does(path: Path) -> None:
    _check_against_json(path)


def test_both_writers_of_torch_give_the_same_events(trace_folder: Path) -> None:
    cpp, python = read(trace_folder / "cpp.json"), read(trace_folder / "python.json")
    assert cpp.origin_ns == python.origin_ns
    assert len(cpp.memory.time) == len(python.memory.time) > 0
    ours = Counter(span[1:] for span in spans(cpp) if not span[0].startswith("PyTorch Profiler"))
    theirs = Counter(
        span[1:] for span in spans(python) if not span[0].startswith("PyTorch Profiler")
    )
    assert ours == theirs
    assert 'my "quoted" \\ é range' in python.names


def test_recorded_categories_and_steps_are_there(trace_folder: Path) -> None:
    trace = read(trace_folder / "cpp.json")
    codes: list[int] = trace.events.category.tolist()
    counts = Counter(codes)
    assert counts[c.CPU_OP] > 50
    assert counts[c.PYTHON_FUNCTION] > 50
    assert counts[c.USER_ANNOTATION] >= 4
    assert trace.health.source == "kineto"
    assert trace.health.resolution_ns == 1
