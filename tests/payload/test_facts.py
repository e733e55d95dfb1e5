"""Facts about precision, threads, processes and memory: ``precision``, ``distributed``, …"""

import linecache
import os
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]

from gapless import wire
from gapless.payload.process_state import STATE
from tests.payload import hooking


def test_settings_are_read_at_the_first_edge_and_written_once() -> None:
    with hooking.install_hooks("precision") as recorder:
        for _ in range(10):
            recorder.edge()
    (fact,) = recorder.facts_about("precision")
    assert fact.values["matmul_precision"] == "highest"
    assert fact.values["allow_tf32_matmul"] is False
    assert fact.values["allow_tf32_conv"] is True
    assert fact.values["cudnn_benchmark"] is False
    assert fact.values["deterministic"] is False
    assert fact.values["anomaly"] is False
    assert fact.values["autocast"] is None
    assert fact.values["scaler"] is False
    (machine,) = recorder.facts_about("machine")
    assert machine.values["intra_op_threads"] == torch.get_num_threads()
    assert machine.values["cpus"] == len(os.sched_getaffinity(0))
    assert machine.values["bf16"] is torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001
    assert not torch.cuda.is_initialized() or torch.cuda.is_available()


def test_settings_are_told_before_the_first_step_ends() -> None:
    with hooking.install_hooks("precision") as recorder:
        for action in recorder.firsts:
            action()
    assert [fact.noun for fact in recorder.facts] == ["precision", "machine"]


def test_a_forked_child_that_trains_tells_its_own_log() -> None:
    with hooking.install_hooks("models", "evaluation", "precision", "distributed") as recorder:
        model = nn.Linear(2, 2).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.step()
        hooking.hook_module("models").register_optimizer(optimizer)
        recorder.edge()
        nouns = [fact.noun for fact in recorder.facts]
        STATE.fork()
        optimizer.step()
        recorder.edge()
    assert sorted(nouns) == ["machine", "model", "precision"]
    assert [fact.noun for fact in recorder.facts] == nouns * 2


def test_a_changed_setting_is_written_again() -> None:
    with hooking.install_hooks("precision") as recorder:
        recorder.edge()
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            recorder.edge()
    assert [fact.values["anomaly"] for fact in recorder.facts_about("precision")] == [False, True]


def test_anomaly_detection_is_told_with_the_line_that_switched_it_on() -> None:
    with hooking.install_hooks("precision") as recorder:
        recorder.edge()
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            recorder.edge()
    off, on = recorder.facts_about("precision")
    assert off.values["anomaly_at"] is None
    file, _, line = on.values["anomaly_at"].rpartition(":")
    assert file == __file__
    assert "set_detect_anomaly" in linecache.getline(file, int(line))


def test_a_library_that_is_off_is_told_with_the_line_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# mkldnn.enabled = False\nif torch.backends.mkldnn.enabled == 1:\n    {line}\n"
    for number, line in ((3, "torch.backends.mkldnn.enabled = False"), (0, "print()")):
        script = tmp_path / f"train{number}.py"
        monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
        place = f"{script}:{number}" if number else None
        script.write_text(text.format(line=line))
        monkeypatch.setattr("torch._C._get_mkldnn_enabled", lambda: False)
        with hooking.install_hooks("precision") as recorder:
            recorder.edge()
        (fact,) = recorder.facts_about("precision")
        assert (fact.values["mkldnn_enabled"], fact.values["library_at"]) == (False, place)


def test_what_watches_pythons_calls_is_told_with_the_line_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys, tracemalloc\n\ntracemalloc.start()\n")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    usual = sys.getprofile()

    def watch(*_: object) -> None:
        """Look at nothing."""

    with hooking.install_hooks("precision") as recorder:
        recorder.edge()
        tracemalloc.start()
        sys.setprofile(watch)
        try:
            recorder.edge()
        finally:
            sys.setprofile(usual)
            tracemalloc.stop()
    before, fact = recorder.facts_about("precision")
    added = [
        name for name in fact.values["watchers"] if name not in (before.values["watchers"] or ())
    ]
    assert added == ["tests (sys.setprofile)", "tracemalloc"]
    assert fact.values["watchers_at"] == f"{script}:3"


def test_the_newer_names_of_tf32_do_not_make_reading_fail() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    with hooking.install_hooks("precision") as recorder:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            assert hooking.warnings_of(recorder.edge) == []
        finally:
            torch.backends.cuda.matmul.fp32_precision = before
    (fact,) = recorder.facts_about("precision")
    assert fact.values["allow_tf32_matmul"] is True
    assert fact.values["matmul_precision"] == "high"


def test_mixed_precision_is_seen_where_it_is_entered() -> None:
    with hooking.install_hooks("precision") as recorder:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = torch.ones(2, 2) @ torch.ones(2, 2)
        with torch.autocast("cpu", dtype=torch.float16, enabled=False):
            pass
        recorder.edge()
    assert product.dtype == torch.bfloat16
    (fact,) = recorder.facts_about("precision")
    assert fact.values["autocast"] == {"cpu": "torch.bfloat16"}
    assert fact.location is not None
    assert fact.location[0] == __file__


def under_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        return x @ x


def test_mixed_precision_can_still_be_scripted() -> None:
    scripted: list[Any] = []
    with hooking.install_hooks("precision"):
        hooking.warnings_of(lambda: scripted.append(torch.jit.script(under_autocast)))
    assert scripted[0](torch.ones(2, 2)).dtype == torch.bfloat16


def test_a_scaler_is_seen_and_its_warning_names_the_users_line() -> None:
    def make() -> None:
        torch.amp.GradScaler("cuda")  # pyright: ignore[reportPrivateImportUsage]

    plain = hooking.warnings_of(make)
    with hooking.install_hooks("precision") as recorder:
        observed = hooking.warnings_of(make)
        recorder.edge()
    assert observed == plain
    if not torch.cuda.is_available():
        assert plain
    (fact,) = recorder.facts_about("precision")
    assert fact.values["scaler"] is torch.cuda.is_available()


def test_only_names_that_are_allowed_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with hooking.install_hooks("precision") as recorder:
        recorder.edge()
    environment = recorder.facts_about("machine")[0].values["environment"]
    assert environment["OMP_NUM_THREADS"] == "3"
    assert "secret" not in repr(recorder.facts)
    assert recorder.facts_about("precision")[0].values["launch_blocking"] is True


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_how_a_model_is_spread_is_a_fact_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    before = vars(nn.parallel.DistributedDataParallel)["__init__"]
    with hooking.install_hooks("models", "evaluation", "distributed") as recorder:
        model = nn.Linear(2, 2)
        ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=10, static_graph=True)
        ddp(torch.ones(1, 2)).sum().backward()
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        optimizer.step()
        hooking.hook_module("models").register_optimizer(optimizer)
        recorder.edge()
        ddp.eval()
        model.train()
    assert vars(nn.parallel.DistributedDataParallel)["__init__"] is before
    (fact,) = recorder.facts_about("ddp")
    assert fact.values["bucket_cap_mb"] == 10
    assert fact.values["static_graph"] is True
    assert fact.values["find_unused_parameters"] is False
    assert fact.values["gradient_as_bucket_view"] is False
    assert fact.values["world"] == 1
    assert fact.location is not None
    assert fact.location[0] == __file__
    (processes,) = recorder.facts_about("distributed")
    assert processes.values["backend"] == "gloo"
    assert (processes.values["rank"], processes.values["world"]) == (0, 1)
    assert processes.values["nodes"] == 1
    (model_fact,) = recorder.facts_about("model")
    assert model_fact.values["class"].endswith("Linear")
    modes = recorder.marks_of(wire.MODE)
    assert [(mark.subject, mark.value) for mark in modes] == [
        (model_fact.id, 0),
        (model_fact.id, 1),
    ]


def test_without_a_process_group_there_is_no_fact_of_one() -> None:
    with hooking.install_hooks("distributed") as recorder:
        recorder.edge()
    assert recorder.facts == []


def statistics() -> dict[str, object]:
    totals = {"all": {"current": 7, "peak": 9, "allocated": 20, "freed": 13}}
    names = ("allocated_bytes", "reserved_bytes", "active_bytes", "segment")
    return {**dict.fromkeys(names, totals), "num_alloc_retries": 2, "num_ooms": 0}


def test_counters_of_the_allocator_are_read_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[int] = []

    def read(device: int) -> dict[str, object]:
        devices.append(device)
        return statistics()

    stand_in = SimpleNamespace(_cuda_getDevice=lambda: 1, _cuda_memoryStats=read)
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=stand_in))
    with hooking.install_hooks("allocator") as recorder:
        for now_ns in (0, 400_000_000, 999_999_999, 1_000_000_000, 1_500_000_000):
            recorder.edge(now_ns)
    assert devices == [1, 1]
    kind, frame = recorder.written[-1]
    assert kind == wire.COUNTERS
    assert frame["ns"] == 1_000_000_000
    assert (frame["allocated"], frame["reserved_peak"], frame["segments"]) == (7, 9, 7)
    assert (frame["retries"], frame["ooms"]) == (2, 0)
    assert "device_allocs" not in frame


def test_counters_of_a_day_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: int) -> dict[str, object]:
        return statistics()

    stand_in = SimpleNamespace(_cuda_getDevice=int, _cuda_memoryStats=read)
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=stand_in))
    with hooking.install_hooks("allocator") as recorder:
        for second in range(1, 86_400):
            recorder.edge(second * 1_000_000_000)
    assert 5_000 < len(recorder.written) < 8_000


def test_where_cuda_is_not_in_use_nothing_is_asked() -> None:
    if torch.cuda.is_initialized():
        pytest.skip("CUDA is in use here")
    with hooking.install_hooks("allocator", "device_steps", "precision") as recorder:
        recorder.edge()
        recorder.edge()
    assert recorder.written == []
    assert recorder.marks == []
    assert not torch.cuda.is_initialized()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_the_real_allocator_is_read_without_a_sync() -> None:
    tensor = torch.ones(1 << 20, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        with hooking.install_hooks("allocator", "device_steps", "precision") as recorder:
            recorder.edge()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert recorder.written[0][1]["allocated"] >= tensor.nbytes
