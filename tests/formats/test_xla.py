"""Profiles of JAX and TensorFlow: devices, threads, steps, and what a batch was waited for in."""

import gzip
import json
from pathlib import Path

import pytest

import gapless
from benchmarks.mutations import find_faults
from gapless.errors import NotATraceError
from gapless.formats import find, read
from gapless.formats.roles import is_input, is_step
from gapless.formats.text import whole
from gapless.model import category as c
from gapless.model.study import Study
from tests.formats.proto_writing import (
    PlaneWriter,
    executor_profile,
    gpu_profile,
    message,
    tensorflow_profile,
)
from tests.formats.test_nsight import names_of


def open_profile(folder: Path, data: bytes) -> Study:
    """Open a profile, past the cache."""
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return gapless.open(path, cache=False)


def test_device_threads_and_facts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(gpu_profile(6))
    trace = read(path)
    assert find_faults(trace) == []
    assert names_of(trace, c.KERNEL) == ["gemm_fusion_dot"] * 6
    assert names_of(trace, c.MEMCPY) == ["Memcpy HtoD (Pageable -> Device)"] * 6
    assert set(trace.gpu.bytes.tolist()) == {-1, 4096}
    assert trace.roles.steps == tuple(f"train {number}" for number in range(6))
    assert trace.devices[0].compute_capability == (9, 0)
    assert trace.origin_ns == 1_700_000_000 * 10**9
    assert trace.geometries[0].grid == (8, 1, 1)
    # calls have a lane of their own in the file, and lie in the frames of Python's thread
    calls = trace.events.category == c.DRIVER
    assert set(trace.events.track[calls].tolist()) == {trace.roles.main}


def test_wait_for_a_batch_on_a_gpu_is_told_by_stage(tmp_path: Path) -> None:
    account = open_profile(tmp_path, gpu_profile(8)).account
    assert account.steps == 6
    assert sum(account.leaves.values()) == account.wall_ns
    assert account.leaves["idle.data.decode"] == 6 * 300_000
    assert account.groups["data"] >= 6 * 399_000


def test_tensorflow_input_pipeline_is_told_by_stage(tmp_path: Path) -> None:
    study = open_profile(tmp_path, tensorflow_profile(8))
    account = study.account
    assert account.steps == 6
    assert account.groups["data"] == 6 * 600_000
    assert account.leaves["idle.data.read"] == 6 * 90_000
    assert account.leaves["idle.data.decode"] == 6 * 400_000
    assert account.leaves["busy.math"] == 6 * 280_000


def test_executor_on_the_cpu_is_told_as_a_device(tmp_path: Path) -> None:
    study = open_profile(tmp_path, executor_profile(8))
    account = study.account
    assert study.run.device == "XLA's executor on the CPU"
    assert study.health.launches_recorded == 1.0
    assert account.leaves["busy.math"] == 6 * 400_000
    assert account.groups["data"] > 6 * 400_000


def test_compiling_in_a_pool_is_on_who_waited_for_it(tmp_path: Path) -> None:
    threads = PlaneWriter("/host:CPU")
    threads.add_line("python", [("PjitFunction(f)", 0, 1_000_000, {})])
    threads.add_line(
        "tf_PjRtCompilerThreadPool/9",
        [("CpuCompiler::RunBackend", 100_000, 500_000, {}), ("dce", 200_000, 100_000, {})],
    )
    device = PlaneWriter("/device:GPU:0").add_line(
        "Stream #1", [("k.1", 0, 1000, {}), ("k.1", 900_000, 1000, {"correlation_id": 4})]
    )
    threads.add_line("t/1", [("cuLaunchKernel", 890_000, 1000, {"correlation_id": 4})])
    account = open_profile(tmp_path, device.bytes() + threads.bytes()).account
    assert account.leaves["idle.compile"] == 500_000


def test_launches_named_after_kernels_are_launches(tmp_path: Path) -> None:
    device = PlaneWriter("/device:GPU:0").add_line(
        "Stream #1",
        [
            ("MemcpyH2D", 100_000, 5_000, {"correlation_id": 1}),
            ("gemm_fusion_dot_7", 110_000, 5_000, {"correlation_id": 2}),
            ("loop_add_fusion", 900_000, 5_000, {"correlation_id": 3}),
            ("loop_add_fusion", 905_000, 5_000, {"correlation_id": 3}),
        ],
    )
    threads = PlaneWriter("/host:CPU").add_line(
        "python",
        [
            ("MemcpyH2D", 90_000, 5_000, {"correlation_id": 1}),
            ("gemm_fusion_dot_7", 98_000, 5_000, {"correlation_id": 2}),
            ("load_batch", 150_000, 700_000, {}),
            ("cuGraphLaunch (CudaGraph:17)", 890_000, 5_000, {"correlation_id": 3}),
        ],
    )
    account = open_profile(tmp_path, device.bytes() + threads.bytes()).account
    calls = names_of(read(tmp_path / "host.xplane.pb"), c.DRIVER)
    assert calls == ["cuMemcpyAsync", "cuLaunchKernel", "cuGraphLaunch"]
    assert account.leaves.get("idle.unrecorded", 0) == 0
    assert account.groups["data"] == 700_000


def test_infeed_is_a_copy_and_loops_hold_other_operations(tmp_path: Path) -> None:
    device = PlaneWriter("/device:TPU:0").add_line(
        "XLA Ops",
        [
            ("%while.3 = (s32[], f32[8]{0:T(128)}) while(%tuple.2)", 0, 900, {}),
            ("infeed.1", 0, 300, {}),
            ("fusion.7", 300, 500, {}),
            ("%all-reduce.2 = f32[8]{0:T(128)} all-reduce(%copy.1)", 800, 400, {}),
        ],
    )
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(device.bytes())
    trace = read(path)
    assert names_of(trace, c.KERNEL) == ["fusion", "all-reduce"]
    assert names_of(trace, c.MEMCPY) == ["infeed HtoD"]
    assert trace.written_events == 4
    assert gapless.open(path, cache=False).account.groups["communication"] == 400


def test_what_lies_in_the_runtime_is_no_range_of_the_users(tmp_path: Path) -> None:
    host = PlaneWriter("/host:CPU").add_line(
        "python",
        [
            ("evaluate", 0, 900, {}),
            ("ArrayImpl.copy_to_host_async", 100, 300, {}),
            ("AllocateDestinationBuffer", 150, 50, {}),
            ("TfrtTpuCompiler::Compile", 500, 300, {}),
            ("DCE", 600, 50, {}),
        ],
    )
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(host.bytes())
    assert names_of(read(path), c.USER_ANNOTATION) == ["evaluate"]


def test_folder_of_a_profile_gives_its_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "plugins/profile/2026_11_27"
    folder.mkdir(parents=True)
    (folder / "host.xplane.pb").write_bytes(gpu_profile(2))
    with gzip.open(folder / "host.trace.json.gz", "wt") as file:
        file.write('{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1}]}')
    assert find([str(tmp_path)]) == (folder / "host.xplane.pb",)


def test_cut_profile_gives_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    data = gpu_profile(6)
    path.write_bytes(data[: len(data) // 2])
    health = read(path).health
    assert health.truncated
    assert [count.what for count in health.dropped] == ["message that is damaged"]


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    for data in (b"", b"\xff\xff\xff", message((9, "x")), b"{}"):
        path.write_bytes(data)
        with pytest.raises(NotATraceError):
            read(path)


@pytest.mark.parametrize(
    ("name", "step", "hand_over"),
    [
        ("train_step", True, False),
        ("Iteration 12", True, False),
        ("[pl][profile]run_training_batch", True, False),
        ("optimizer_step", False, False),
        ("forward", False, False),
        ("load_batch", False, True),
        ("get next batch", False, True),
        ("data loading", False, True),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", False, True),
        ("batch_norm", False, False),
        ("database", False, False),
    ],
)
def test_names_of_steps_and_hand_overs_are_known(name: str, step: bool, hand_over: bool) -> None:
    assert (is_step(name), is_input(name)) == (step, hand_over)


def test_what_the_viewer_made_of_a_profile_is_understood(tmp_path: Path) -> None:
    labels = [
        ("process_name", 1, None, "/host:CPU"),
        ("thread_name", 1, 5, "python"),
        ("process_name", 2, None, "/device:GPU:0"),
        ("thread_name", 2, 9, "Stream #9(Compute)"),
        ("thread_name", 2, 10, "XLA Ops"),
    ]
    rows = [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid or 0, "args": {"name": text}}
        for kind, pid, tid, text in labels
    ]
    for step in range(4):
        at = step * 1000
        rows += [
            {"ph": "X", "pid": 1, "tid": 5, "name": "train", "ts": at, "dur": 990},
            {"ph": "X", "pid": 1, "tid": 5, "name": "load_batch", "ts": at, "dur": 500},
            {"ph": "X", "pid": 2, "tid": 9, "name": "loop_fusion.2", "ts": at + 600, "dur": 300},
            {"ph": "X", "pid": 2, "tid": 10, "name": "loop", "ts": at + 600, "dur": 300},
        ]
    path = tmp_path / "host.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": rows}).encode()))
    trace = read(path)
    assert find_faults(trace) == []
    assert names_of(trace, c.KERNEL) == ["loop_fusion"] * 4
    assert trace.roles.inputs == ("load_batch",)
    assert trace.health.source == "xla"
    assert any(".xplane.pb" in note for note in trace.health.notes)


def test_fixes_of_another_framework_are_not_proposed(tmp_path: Path) -> None:
    study = open_profile(tmp_path, tensorflow_profile(8))
    assert study.diagnosis is None
    assert any("none is looked for" in note for note in study.health.notes)


def test_file_that_inflates_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "_FREE_BYTES", 1 << 20)
    path = tmp_path / "host.xplane.pb.gz"
    path.write_bytes(gzip.compress(bytes(12 << 20), 1))
    with pytest.raises(NotATraceError, match="inflates to more than"):
        read(path)
