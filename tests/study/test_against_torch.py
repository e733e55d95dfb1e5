"""The operator table against torch's own ``key_averages`` of the same recording."""

from pathlib import Path
from typing import Any

import pytest
import torch

import gapless


def record(path: Path, *, shapes: bool) -> Any:  # noqa: ANN401
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes
    ) as profiler:
        for _ in range(3):  # without a mark that repeats: no steps, so all of it counts
            model(torch.randn(8, 16)).sum().backward()
        with torch.profiler.record_function("mine"):
            model(torch.randn(4, 16)).softmax(dim=1)
    profiler.export_chrome_trace(str(path))
    return profiler


def test_operators_are_those_of_key_averages(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    torch_rows = {row.key: row for row in record(path, shapes=False).key_averages()}
    our_rows = {row.name: row for row in gapless.open(path, cache=False).tables.operators}
    assert set(our_rows) == set(torch_rows)
    for name, row in torch_rows.items():
        our_row = our_rows[name]
        assert our_row.calls == row.count, name
        rounding_ns = 2.0 * row.count  # ns: a start and a length of each
        assert our_row.host_total_ns == pytest.approx(row.cpu_time_total * 1000, abs=rounding_ns), (
            name
        )
        tolerance_ns = 5.0 * row.count
        assert our_row.host_self_ns == pytest.approx(
            row.self_cpu_time_total * 1000, abs=tolerance_ns
        ), name


def test_operators_by_shape_are_those_of_key_averages(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    rows = record(path, shapes=True).key_averages(group_by_input_shape=True)
    torch_calls: dict[tuple[str, str], int] = {}
    for row in rows:
        text = " ".join(str(shape) for shape in row.input_shapes if shape)
        torch_calls[row.key, text] = torch_calls.get((row.key, text), 0) + row.count
    study = gapless.open(path, cache=False, by_shape=True)
    our_calls = {(row.name, row.shapes or ""): row.calls for row in study.tables.operators}
    assert our_calls == torch_calls
