"""The table of what operators computed and moved; GPUs as they were sampled; lines that save."""

from pathlib import Path
from typing import cast

import pytest
import torch
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]
from torch.utils.data import DataLoader, Dataset

import gapless
from gapless import wire
from gapless.recorded.machine.devices import device_states
from tests.study import recording as by_hand
from tests.study.recording import Log
from tests.study.test_footprint import footprint
from tests.study.test_run_machine import flat, samples
from tests.traces import TRACES


def test_rows_of_work_hold_the_kernels_of_operators_with_their_needs() -> None:
    study = gapless.open(TRACES["amp_bf16"], cache=False)
    products = [row for row in study.work if row.flops and row.leaf == "busy.tc_math"]
    assert products
    assert {row.dtype for row in products} == {"bf16"}
    assert any(row.backward for row in products)
    assert any(not row.backward for row in products)
    for row in products:
        assert row.kernel
        assert row.launches >= row.calls > 0
        speed = (row.flops or 0) / row.ns * 1e9
        assert speed < 1e15  # no H200 is faster
    kernels = sum(row.device_ns for row in study.tables.kernels if row.leaf.startswith("busy."))
    work = sum(row.ns for row in study.work)  # memsets and copies on the device, too
    assert 0.9 * kernels < work < 1.05 * kernels


@pytest.mark.parametrize("name", ["checkpointing", "checkpointing_reentrant"])
def test_forwards_that_a_checkpoint_ran_again_are_told_apart(name: str) -> None:
    study = gapless.open(TRACES[name], cache=False)
    recomputed_ns = sum(row.ns for row in study.work if row.again)
    forward_ns = sum(row.ns for row in study.work if not row.backward and not row.again)
    assert 0.2 * forward_ns < recomputed_ns < 1.5 * forward_ns


def test_the_host_comes_to_each_launch_once_and_never_in_more_than_the_steps() -> None:
    study = gapless.open(TRACES["eager_launch_bound"], cache=False)
    host = sum(row.host_ns for row in study.work)
    assert 0.3 * study.account.wall_ns < host < study.account.wall_ns  # one thread at a time


@pytest.mark.parametrize("reentrant", [False, True])
def test_without_a_device_forwards_that_ran_again_are_told_apart(
    tmp_path: Path, *, reentrant: bool
) -> None:
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)]

    def step() -> None:
        x = torch.randn(32, 64, requires_grad=True)
        for layer in layers:
            x = cast("torch.Tensor", checkpoint(layer, x, use_reentrant=reentrant))
        x.sum().backward()

    step()
    with torch.profiler.profile(record_shapes=True) as profiler:
        for number in range(3):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    work = gapless.open(path, cache=False).work
    recomputed = {row.operator: row.calls for row in work if row.again}
    forward = {row.operator: row.calls for row in work if not row.again and not row.backward}
    assert recomputed["aten::linear"] == forward["aten::linear"] > 0
    assert recomputed["aten::gelu"] == forward["aten::gelu"]
    assert "aten::gelu_backward" not in recomputed


@pytest.mark.parametrize("name", ["amp_bf16", "eager_launch_bound"])
def test_an_ordinary_backward_runs_nothing_again(name: str) -> None:
    study = gapless.open(TRACES[name], cache=False)
    assert not [row for row in study.work if row.again]


class _Errors(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.erf(torch.full((4,), float(index)))


def test_what_a_loader_computes_in_the_training_process_is_no_work_of_the_step(
    tmp_path: Path,
) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for batch in DataLoader(_Errors(), batch_size=8):
            model(batch).cos().sum().backward()
            optimizer.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    study = gapless.open(tmp_path / "trace.json", cache=False)
    assert "aten::erf" in {row.name for row in study.tables.operators}
    operators = {row.operator for row in study.work}
    assert "aten::erf" not in operators
    assert "aten::cos" in operators


def test_the_clock_is_that_of_looks_in_which_the_gpu_worked() -> None:
    (gpu,) = device_states(
        samples(
            gpu0__sm=[(second * 1000.0, 0 if second < 5 else 100) for second in range(15)],
            gpu0__clock_sm=[
                (second * 1000.0, 1980 if second < 5 else 1500) for second in range(15)
            ],
            gpu0__throttle=[(second * 1000.0, 1 if second < 5 else 0x20) for second in range(15)],
            gpu0__others=flat(2),
            gpu0__memory_used=flat(3e9),
            gpu0__memory_total=flat(8e9),
        )
    )
    assert (gpu.number, gpu.clock_mhz, gpu.best_mhz) == (0, 1500, 1980)
    assert gpu.held == {"heat": 1.0}
    assert (gpu.others, gpu.memory_peak, gpu.memory_total) == (1.0, 3_000_000_000, 8_000_000_000)


def test_of_a_gpu_that_hardly_worked_no_clock_is_told() -> None:
    (gpu,) = device_states(samples(gpu1__sm=flat(3), gpu1__clock_sm=flat(345)))
    assert (gpu.number, gpu.busy, gpu.clock_mhz, gpu.held) == (1, 0.03, None, {})


def test_nothing_is_told_of_gpus_that_were_not_sampled() -> None:
    assert device_states(samples(cpu__tree=flat(100))) == ()


def test_of_a_device_that_was_looked_at_once_others_are_not_known() -> None:
    first_gpu, second_gpu = device_states(samples(gpu0__others=flat(0), gpu7__others=[(1000.0, 1)]))
    assert (first_gpu.others, second_gpu.others) == (0.0, None)


def test_lines_that_save_and_log_are_told_with_how_often() -> None:
    log = Log()
    log.add_fact("site", 3, ("train.py", 88))
    log.add_fact("site", 4, ("train.py", 90))
    for number in range(11):
        log.add_steps(100 + 10 * number)
        if number < 10:
            log.add_mark("logging", 101 + 10 * number, 102 + 10 * number, subject=4)
    log.add_mark("checkpoint", 151, 155, subject=3)
    log.add_mark("checkpoint", 300, 305, subject=wire.NOBODY)
    calls = footprint(by_hand.recording(log)).calls
    counts_by_line = {
        (call.kind, call.line): (call.count, call.total_ns // by_hand.MS, call.per_step)
        for call in calls
    }
    assert counts_by_line == {
        ("logging", 90): (10, 10, 1.0),
        ("checkpoint", 88): (1, 4, 0.1),
        ("checkpoint", None): (1, 5, 0.0),
    }
