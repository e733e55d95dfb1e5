"""What torch wrote from 1.8 to 2.13, on every vendor's devices, and what others write."""

from pathlib import Path

import pytest

from gapless.model import category as c
from gapless.model.trace import Collective, Geometry, Shape
from tests.formats.writing import Fields, health_counts, kernel, labels, op, read_events, spans

_CATEGORIES = [
    ("cpu_op", c.CPU_OP),
    ("Operator", c.CPU_OP),
    ("user_annotation", c.USER_ANNOTATION),
    ("python_function", c.PYTHON_FUNCTION),
    ("cuda_runtime", c.RUNTIME),
    ("Runtime", c.RUNTIME),
    ("mtia_runtime", c.RUNTIME),
    ("xpu_runtime", c.RUNTIME),
    ("privateuse1_runtime", c.RUNTIME),
    ("cuda_driver", c.DRIVER),
    ("xpu_driver", c.DRIVER),
    ("kernel", c.KERNEL),
    ("Kernel", c.KERNEL),
    ("mtia_ccp_events", c.KERNEL),
    ("gpu_memcpy", c.MEMCPY),
    ("Memcpy", c.MEMCPY),
    ("gpu_memset", c.MEMSET),
    ("Memset", c.MEMSET),
    ("gpu_user_annotation", c.GPU_USER_ANNOTATION),
    ("cuda_sync", c.SYNC),
    ("xpu_sync", c.SYNC),
    ("overhead", c.OVERHEAD),
    ("gapless", c.MARKER),
    ("Trace", c.OTHER_KIND),
    ("cuda_event", c.OTHER_KIND),
    ("", c.OTHER_KIND),
]


@pytest.mark.parametrize(("cat", "code"), _CATEGORIES)
def test_every_generations_categories_are_known(tmp_path: Path, cat: str, code: int) -> None:
    assert read_events(tmp_path, [op(cat=cat)]).events.category.tolist() == [code]


def test_what_torch_1_8_called_an_operator_may_be_an_annotation(tmp_path: Path) -> None:
    names = [
        "aten::add",
        "ProfilerStep#3",
        "Optimizer.step#SGD.step",
        "enumerate(DataLoader)#x.__next__",
    ]
    trace = read_events(tmp_path, [op(name, cat="Operator") for name in names])
    assert labels(trace) == ["cpu_op", *["user_annotation"] * 3]


def test_threads_and_streams_that_torch_1_8_wrote_as_text(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        [
            op(cat="Operator", pid=55, tid="56", ts="1623212388426902", dur="35"),
            op(cat="Runtime", pid=55, tid=56, ts="1623212388426903", dur="5"),
            op(cat="Kernel", pid=1, tid="stream 7", ts="1623212388426910", dur="0"),
            '{"ph": "M", "name": "thread_name", "pid": "55", "tid": 56, "args": {"name": "main"}}',
        ],
    )
    tracks = [(track.pid, track.tid, track.thread) for track in trace.tracks]
    assert tracks == [(55, 56, "main"), (1, "stream 7", None)]
    assert (trace.gpu.device.tolist(), trace.gpu.stream.tolist()) == ([1], [7])
    assert trace.health.resolution_ns == 1000


def test_an_activity_has_all_that_its_arguments_tell(tmp_path: Path) -> None:
    args: Fields = {
        "External id": 7, "device": 1, "context": 1, "stream": 20, "correlation": 24226,
        "registers per thread": 32, "shared memory": 4224, "blocks per SM": 7.5, "warps per SM": 60,
        "grid": [1568, 1, 64], "block": [256, 1, 1], "est. achieved occupancy %": 75,
        "graph node id": 12, "bytes": 4096, "Collective name": "allreduce", "dtype": "Float",
        "In msg nelems": 10, "Out msg nelems": 20, "Group size": 8, "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, ...]", "Seq": 3, "Dst Rank": 5,
    }  # fmt: skip
    trace = read_events(tmp_path, [kernel(**args), kernel(ts="30")])
    gpu = trace.gpu
    assert trace.events.correlation.tolist() == [24226, 5]
    assert trace.events.detail.tolist() == [0, 1]
    assert (gpu.device.tolist(), gpu.stream.tolist()) == ([1, 0], [20, 7])
    assert (gpu.graph_node.tolist(), gpu.bytes.tolist()) == ([12, -1], [4096, -1])
    assert (gpu.geometry.tolist(), gpu.collective.tolist()) == ([0, -1], [0, -1])
    assert trace.geometries == (Geometry((1568, 1, 64), (256, 1, 1), 32, 4224, 7.5, 60.0, 0.75),)
    assert trace.collectives == (
        Collective("allreduce", "Float", 10, 20, "0", 8, "[0, 1, ...]", 3, peer=5),
    )


def test_a_sync_record_tells_what_it_waited_for(tmp_path: Path) -> None:
    args = {"device": 0, "stream": 7, "correlation": 9, "wait_on_stream": 20,
            "wait_on_cuda_event_record_corr_id": 88}  # fmt: skip
    trace = read_events(
        tmp_path, [op("Stream Wait Event", cat="cuda_sync", pid=0, tid=1007, args=args)]
    )
    assert (trace.gpu.wait_stream.tolist(), trace.gpu.wait_event.tolist()) == ([20], [88])
    assert trace.gpu.stream.tolist() == [7]  # not the track that newer Kineto moves it to


def test_shapes_are_interned_and_empty_ones_are_none(tmp_path: Path) -> None:
    inputs = {
        "Input Dims": [[2, 3], [[4], [5, 6]], []], "Input type": ["float", "TensorList", "Scalar"],
        "Input Strides": [[3, 1], [[1], [6, 1]], []], "Concrete Inputs": ["", "", "1.5"],
    }  # fmt: skip
    old = {"Input dims": [[7]], "Input type": ["float"]}
    events = [op(args={"External id": i, **inputs}) for i in range(3)]
    trace = read_events(tmp_path, [*events, op(args={"External id": 9}), op(args=old), op("plain")])
    assert trace.events.detail.tolist() == [0, 0, 0, -1, 1, -1]
    dims, strides = ((2, 3), ((4,), (5, 6)), ()), ((3, 1), ((1,), (6, 1)), ())
    types, concrete = ("float", "TensorList", "Scalar"), ("", "", "1.5")
    assert trace.shapes == (Shape(dims, strides, types, concrete), Shape(((7,),), (), ("float",)))


def test_device_and_stream_come_from_the_track_where_arguments_lack_them(tmp_path: Path) -> None:
    events = [
        op("aten::mm", pid=4242, tid=1),
        op("k", cat="mtia_ccp_events", pid=3, tid=11),
        op("k", cat="kernel", pid=4242, tid=1),
    ]
    trace = read_events(tmp_path, events)
    assert trace.gpu.device.tolist() == [3, -1]  # a process that runs operators is no device
    assert trace.gpu.stream.tolist() == [11, 1]


def test_allocator_events_of_both_of_torchs_writers(tmp_path: Path) -> None:
    point = '"cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "args": '
    args = '{"Total Reserved": 9, "Total Allocated": 8, "Bytes": -512, "Device Id": 0}'
    old = '{"Bytes": 64, "Device Id": -1}'
    events = [
        '{"ph": "i", "s": "t", "ts": 5.5, ' + point + args + "}",
        '{"ph": "X", "ts": 6.5, "dur": 99, ' + point + args + "}",
        '{"ph": "i", "s": "t", "name": "[memory]", "ts": 7.5, "args": ' + old + "}",
        '{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 100.5}',
        op(ts="0.5"),
    ]  # fmt: skip
    trace = read_events(tmp_path, events)
    memory = trace.memory
    assert sorted(zip(memory.time.tolist(), memory.bytes.tolist(), strict=True)) == [
        (5500, -512), (6500, -512), (7500, 64),
    ]  # fmt: skip
    row = memory.time.tolist().index(7500)
    assert (memory.allocated[row], memory.reserved[row]) == (-1, -1)
    assert (memory.device_type[row], memory.device[row]) == (0, -1)
    assert len(trace.events) == 1
    assert trace.written_events == 5


def test_begins_and_ends_of_other_writers_become_events(tmp_path: Path) -> None:
    events = [
        '{"ph": "B", "name": "outer", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1}',
        '{"ph": "B", "name": "inner", "cat": "kernel", "pid": 1, "tid": 1, "ts": 2.5}',
        '{"ph": "B", "name": "other", "pid": 1, "tid": 2, "ts": 3}',
        op("x", ts="0"),
        '{"ph": "E", "pid": 1, "tid": 1, "ts": 4}',
        '{"ph": "E", "pid": 1, "tid": 1, "ts": 6}',
        '{"ph": "E", "pid": 1, "tid": 1, "ts": 7}',
    ]
    trace = read_events(tmp_path, events)
    assert spans(trace) == [("x", 0, 5000), ("outer", 1000, 6000), ("inner", 2500, 4000)]
    assert health_counts(trace) == ({"begin without an end": 1, "end without a begin": 1}, {})
    assert trace.events.detail.tolist() == [-1, -1, 0]
    assert trace.gpu.bytes.tolist() == [-1]


def test_a_merged_file_of_several_processes_is_noted(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [op(pid=1, tid=1), op(pid=2, tid=2)])
    assert trace.health.notes == (
        "the file holds 2 processes; ids of theirs may be taken for one another",
    )


def test_devices_ranks_and_versions_are_read(tmp_path: Path) -> None:
    head = (
        '"deviceProperties": [{"id": 1, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, '
        '"computeMajor": 9, "computeMinor": 0, "numSms": 132}], '
        '"distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 8, '
        '"nccl_version": "2.27"}, '
        '"cuda_runtime_version": 13000, "hip_driver_version": "6", "traceName": "x", '
    )
    trace = read_events(tmp_path, [op()], head)
    (device,) = trace.devices
    assert (device.index, device.name, device.compute_capability) == (1, "NVIDIA H200", (9, 0))
    assert device.memory_bytes == 150109880320
    assert trace.rank == 2
    assert trace.distributed is not None
    assert (trace.distributed.world, trace.distributed.backend) == (8, "nccl")
    assert trace.versions == (("cuda_runtime", "13000"), ("hip_driver", "6"), ("nccl", "2.27"))


def test_metadata_that_is_json_text_inside_json_is_read(tmp_path: Path) -> None:
    head = (
        r'"deviceProperties": "[{\"id\": 0, \"name\": \"A\"}]", '
        r'"distributedInfo": "{\"rank\": \"3\", \"world_size\": \"4\"}", '
    )
    trace = read_events(tmp_path, [op()], head)
    assert (trace.devices[0].name, trace.rank) == ("A", 3)


def test_what_the_writer_logged_is_noted_if_it_tells_of_losses(tmp_path: Path) -> None:
    counts = "Record counts: Out-of-range = {}, Blocklisted runtime = 5, CUPTI stopped early? = {}"
    head = f'"WARNING": ["buffers were dropped"], "INFO": ["{counts.format(41, 0)}", "all well"], '
    trace = read_events(tmp_path, [op()], head)
    assert trace.health.notes == (
        "the writer logged: buffers were dropped",
        "the writer logged: Out-of-range: 41 records",
    )
    trace = read_events(tmp_path, [op()], f'"INFO": ["{counts.format(0, 0)}"], ')
    assert trace.health.notes == ()
