"""The tables of a study: what they count, against numbers worked out by hand and against torch."""

from pathlib import Path

import pytest

import gapless
from gapless.model.study import GRAPH_MADE, GRAPH_PASSED, LOOPED, ON_DEVICE
from gapless.model.tables import Operator
from tests.study import writing
from tests.study.writing import activity, annotation, call, kernel, memory, op, python, training

US = 1000  # ns
COUNTED_STEPS = 6  # of eight steps the first and the last are left out


def open_events(tmp_path: Path, events: list[writing.Event], **options: object) -> gapless.Study:
    path = writing.write(tmp_path / "trace.json", events)
    return gapless.open(path, cache=False, **options)  # type: ignore[arg-type]


def operator(study: gapless.Study, name: str) -> Operator:
    (operator_row,) = [row for row in study.tables.operators if row.name == name]
    return operator_row


def test_an_operator_has_its_own_time_and_that_of_what_it_encloses(tmp_path: Path) -> None:
    study = open_events(tmp_path, training())
    linear, addmm = operator(study, "aten::linear"), operator(study, "aten::addmm")
    assert (linear.calls, addmm.calls) == (COUNTED_STEPS, COUNTED_STEPS)
    assert linear.host_total_ns == COUNTED_STEPS * 90 * US
    assert linear.host_self_ns == COUNTED_STEPS * 30 * US
    assert addmm.host_self_ns == COUNTED_STEPS * 50 * US  # less the launch call
    assert (linear.device_self_ns, linear.device_total_ns) == (0, COUNTED_STEPS * 200 * US)
    assert (addmm.device_self_ns, addmm.device_total_ns) == (COUNTED_STEPS * 200 * US,) * 2


def test_calls_of_the_runtime_are_listed_and_own_no_device_time(tmp_path: Path) -> None:
    launches = operator(open_events(tmp_path, training()), "cudaLaunchKernel")
    assert (launches.calls, launches.host_self_ns) == (2 * COUNTED_STEPS, COUNTED_STEPS * 15 * US)
    assert (launches.device_self_ns, launches.device_total_ns) == (0, 0)


def test_operators_are_parted_by_shape_on_request(tmp_path: Path) -> None:
    events = [*training(), op("aten::linear", 2500, 2510, dims=[[1, 2], [3, 4]])]
    rows = open_events(tmp_path, events, by_shape=True).tables.operators
    linear = {row.shapes: row.calls for row in rows if row.name == "aten::linear"}
    assert linear == {"[64, 128] [256, 128]": COUNTED_STEPS, "[1, 2] [3, 4]": 1}
    assert operator(open_events(tmp_path, events), "aten::linear").calls == COUNTED_STEPS + 1


def test_a_list_of_tensors_has_the_shapes_of_all(tmp_path: Path) -> None:
    events = [*training(), op("aten::cat", 2500, 2510, dims=[[[1, 2], [3]], []])]
    rows = open_events(tmp_path, events, by_shape=True).tables.operators
    assert [row.shapes for row in rows if row.name == "aten::cat"] == ["[[1, 2], [3]]"]


def test_a_frame_that_only_wraps_its_like_is_counted_once(tmp_path: Path) -> None:
    twins = [op("twin", 2500, 2530), op("twin", 2505, 2525), op("twin", 2506, 2520)]
    row = operator(open_events(tmp_path, [*training(), *twins]), "twin")
    assert (row.calls, row.host_self_ns, row.host_total_ns) == (1, 30 * US, 30 * US)


def test_an_operator_that_took_no_time_is_called_all_the_same(tmp_path: Path) -> None:
    events = [*training(), op("aten::quick", 2500, 2500)]
    row = operator(open_events(tmp_path, events), "aten::quick")
    assert (row.calls, row.host_total_ns, row.device_total_ns) == (1, 0, 0)
    early_events = [*training(), op("aten::quick", 500, 500)]  # in a step that is left out
    names = [row.name for row in open_events(tmp_path, early_events).tables.operators]
    assert "aten::quick" not in names


def test_kernels_are_grouped_by_name_and_geometry(tmp_path: Path) -> None:
    study = open_events(tmp_path, training())
    gemm, relu = study.tables.kernels
    assert (gemm.calls, gemm.device_ns, gemm.mean_ns) == (
        COUNTED_STEPS,
        COUNTED_STEPS * 200 * US,
        200 * US,
    )
    assert (gemm.tensor_cores, gemm.leaf, gemm.operator) == ("used", "busy.tc_math", "aten::addmm")
    assert gemm.geometry is not None
    assert (gemm.geometry.grid, gemm.geometry.block) == ((2, 1, 1), (128, 1, 1))
    assert (gemm.geometry.registers, gemm.geometry.occupancy) == (90, 0.25)
    assert (relu.tensor_cores, relu.leaf, relu.geometry) == (None, "busy.elementwise", None)


def test_kernels_without_a_launch_have_no_operator(tmp_path: Path) -> None:
    events = [*training(), kernel("orphan", 0, 2800, 2810)]
    (orphan,) = [k for k in open_events(tmp_path, events).tables.kernels if k.name == "orphan"]
    assert (orphan.operator, orphan.calls) == (None, 1)


def test_copies_have_direction_memory_and_rate(tmp_path: Path) -> None:
    extra = [
        call(901, 2500, 2505, "cudaMemcpyAsync"),
        activity("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 901, 2510, 2520),
        call(902, 2530, 2535, "cudaMemsetAsync"),
        activity("gpu_memset", "Memset (Device)", 902, 2540, 2550, bytes=100),
        call(903, 2560, 2565, "hipMemcpyAsync"),
        activity("gpu_memcpy", "Memcpy odd", 903, 2570, 2571, bytes=1),
    ]
    rows = {
        row.direction: row for row in open_events(tmp_path, [*training(), *extra]).tables.copies
    }
    pinned = rows["HtoD"]
    assert (pinned.memory, pinned.calls, pinned.bytes) == (
        "pinned",
        COUNTED_STEPS,
        COUNTED_STEPS * 1_000_000,
    )
    assert pinned.bytes_per_s == pytest.approx(25e9)
    back = rows["DtoH"]
    assert (back.memory, back.bytes, back.bytes_per_s) == ("pageable", None, None)
    assert (rows["memset"].memory, rows["memset"].bytes) == (None, 100)
    assert rows["other"].calls == 1


def test_ranges_are_the_users_own(tmp_path: Path) -> None:
    torch_names = ["Optimizer.step#SGD.step", "nccl:all_reduce", "Torch-Compiled Region: 0/0"]
    events = training() + [annotation(name, 2500, 2510) for name in torch_names]
    (forward,) = open_events(tmp_path, events).tables.ranges
    assert (forward.name, forward.calls) == ("forward", COUNTED_STEPS)
    assert (forward.host_ns, forward.device_ns) == (
        COUNTED_STEPS * 200 * US,
        COUNTED_STEPS * 220 * US,
    )


def test_memory_has_peaks_and_counts_of_the_counted_steps(tmp_path: Path) -> None:
    events = [
        memory(500, 1 << 30, 9 << 30, 9 << 30),  # in the first step, which is left out
        memory(2500, 1 << 20, 3 << 20, 8 << 20),
        memory(2600, -(1 << 20), 2 << 20, 8 << 20),
    ]
    (row,) = open_events(tmp_path, training() + events).tables.memory
    assert (row.device, row.peak_allocated, row.peak_reserved) == ("cuda:0", 3 << 20, 8 << 20)
    assert (row.allocations, row.frees, row.allocated_bytes) == (1, 1, 1 << 20)


def test_lines_have_the_time_of_their_own_and_the_idle_time_they_caused(tmp_path: Path) -> None:
    events = [
        *training(),
        python("model.py(3): walk", 2450, 2490),
        python("model.py(3): walk", 2460, 2480),  # recursion
        python("<built-in method len>", 2465, 2470),
    ]
    study = open_events(tmp_path, events)
    lines = {(line.file, line.function): line for line in study.tables.lines}
    main, walk = lines["train.py", "main"], lines["model.py", "walk"]
    assert (main.calls, main.host_total_ns) == (0, COUNTED_STEPS * 1000 * US)  # it began before
    assert main.host_self_ns == (COUNTED_STEPS * 1000 - 40) * US
    assert main.device_total_ns == COUNTED_STEPS * 260 * US
    assert (walk.calls, walk.host_total_ns, walk.host_self_ns) == (2, 40 * US, 40 * US)
    assert (walk.line, walk.device_total_ns) == (3, 0)
    idle = sum(ns for leaf, ns in study.account.leaves.items() if leaf.startswith("idle."))
    assert 0 < main.idle_ns + walk.idle_ns <= idle
    assert ("torch/nn/modules/linear.py", "forward") not in lines  # only in the first step


def test_idle_time_goes_to_the_users_line_before_that_of_a_library(tmp_path: Path) -> None:
    events = training()
    for number in range(8):
        start = number * 1000.0
        events.append(python("torch/optim/sgd.py(9): step", start + 380, start + 980))
    lines = {line.file: line for line in open_events(tmp_path, events).tables.lines}
    assert lines["torch/optim/sgd.py"].idle_ns == 0
    assert lines["train.py"].idle_ns > 0


def test_a_capture_of_the_host_alone_has_no_device_columns(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 10), op("aten::mm", 20, 40), annotation("mine", 0, 50)]
    study = open_events(tmp_path, events)
    mm = operator(study, "aten::mm")
    assert (mm.calls, mm.host_total_ns, mm.device_self_ns, mm.device_total_ns) == (
        2,
        30 * US,
        None,
        None,
    )
    assert study.tables.kernels == study.tables.copies == study.tables.collectives == ()
    assert [row.device_ns for row in study.tables.ranges] == [None]
    assert study.steps is None


def test_steps_can_be_chosen(tmp_path: Path) -> None:
    study = open_events(tmp_path, training(), steps="0,3-4")
    assert operator(study, "aten::addmm").calls == 3
    assert {row.row.step for row in study.account.rows} == {0, 3, 4}
    with pytest.raises(gapless.GaplessError, match="it has steps 0 to 7"):
        open_events(tmp_path, training(), steps="40-")
    with pytest.raises(gapless.GaplessError, match="it has no steps"):
        open_events(tmp_path, [op("aten::mm", 0, 10)], steps=1)


def test_calls_that_no_step_needs_are_told_of_where_no_loader_makes_them(tmp_path: Path) -> None:
    copies = [
        python("copy.py(128): deepcopy", 2400, 2440),
        python("copy.py(227): _deepcopy_dict", 2405, 2435),
        python("copy.py(128): deepcopy", 2410, 2430),  # of a part: within the first
        python("copy.py(66): copy", 2450, 2460),
        python("torch/_tensor_str.py(707): _str", 2470, 2490),
    ]
    loader_events = [
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 3400, 3450),
        python("copy.py(128): deepcopy", 3410, 3440),
    ]
    study = open_events(tmp_path, [*training(), *copies, *loader_events])
    calls = [site for site in study.sites if site.name.startswith(("copy.", "torch.Tensor."))]
    assert {(call.name, call.function, call.ns, call.calls) for call in calls} == {
        ("copy.deepcopy", "main", 40 * US, 1),
        ("copy.copy", "main", 10 * US, 1),
        ("torch.Tensor.__repr__", "main", 20 * US, 1),
    }


def test_calls_of_files_are_told_by_the_function_that_makes_them(tmp_path: Path) -> None:
    text = "of _io.TextIOWrapper object at 0x7f2825a71a00>"
    events = [
        *training(),
        python(f"<built-in method write {text}", 2450, 2460),
        python(f"<built-in method flush {text}", 2460, 2480),
        python("<built-in function fsync>", 2480, 2490),
        python("<built-in function len>", 2490, 2492),
        python("<built-in method append of list object at 0x7f2825a71a00>", 2492, 2494),
        python("json/__init__.py(120): dump", 3450, 3490),  # told of as a whole
        python(f"<built-in method write {text}", 3455, 3460),
        python("<built-in function print>", 3500, 3550),  # of what is told of as a whole
        python("json/__init__.py(120): dumps", 3505, 3545),
        annotation("gapless:save", 4450, 4490),
        python(f"<built-in method write {text}", 4455, 4460),
    ]
    sites = open_events(tmp_path, events).sites
    calls_by_name = {
        site.name: (site.function, site.calls, site.ns) for site in sites if "file." in site.name
    }
    assert calls_by_name == {
        "file.write": ("main", 1, 10 * US),
        "file.flush": ("main", 1, 20 * US),
        "file.fsync": ("main", 1, 10 * US),
    }


def test_what_the_recorder_writes_is_none_of_the_trainings(tmp_path: Path) -> None:
    events = [
        *training(),
        python("/lib/gapless/wire.py(173): encoded", 2450, 2490),
        python("json/__init__.py(183): dumps", 2455, 2480),
        python("/lib/gapless/payload/sink.py(60): write", 2500, 2540),
        python("<built-in method write of _io.FileIO object at 0x7f2825a71a00>", 2505, 2530),
    ]
    names = {site.name for site in open_events(tmp_path, events).sites}
    assert not {name for name in names if name.startswith(("file.", "json."))}


def test_a_functions_own_operators_are_told_with_their_part_of_the_backward_pass(
    tmp_path: Path,
) -> None:
    def numbered(name: str, start: float, end: float, number: int) -> writing.Event:
        return writing.host("cpu_op", name, start, end, **{"Sequence number": number})

    node = "autograd::engine::evaluate_function: {}"
    events = [
        *training(),
        python("train.py(30): penalty", 2400, 2440),
        numbered("aten::ones", 2401, 2403, 7),  # makes no node: another one has its number
        numbered("aten::pow", 2405, 2425, 7),
        numbered("aten::mul", 2410, 2420, 7),  # of the same node, within it
        python("torch/nn/functional.py(3000): cross_entropy", 2450, 2470),
        numbered("aten::log_softmax", 2451, 2469, 8),
        numbered(node.format("LogSoftmaxBackward0"), 2500, 2520, 8),
        numbered(node.format("PowBackward0"), 2520, 2550, 7),
        numbered("aten::mul", 2525, 2535, 7),  # of the backward pass: it makes none
        numbered(node.format("Known"), 2550, 2560, 6),  # made before the capture
    ]
    sites = open_events(tmp_path, events).sites
    assert {
        (site.name, site.function, site.ns, site.calls)
        for site in sites
        if site.name in {GRAPH_MADE, GRAPH_PASSED}
    } == {(GRAPH_MADE, "penalty", 20 * US, 1), (GRAPH_PASSED, "penalty", 30 * US, 2)}


def test_a_loop_is_told_by_the_function_of_which_one_call_goes_through_its_rounds(
    tmp_path: Path,
) -> None:
    def calls(count: int, start: float, name: str = "aten::mul") -> list[writing.Event]:
        return [op(name, start + 2 * index, start + 2 * index + 1) for index in range(count)]

    events: list[writing.Event] = [python("train.py(10): main", 0, 3000)]
    for start in (0, 1000, 2000):
        events += [
            annotation(f"ProfilerStep#{start // 1000}", start, start + 1000),
            python("solver/ode.py(5): solve", start + 10, start + 200),
            *(
                python("train.py(3): field", start + 12 + 6 * i, start + 17 + 6 * i)
                for i in range(30)
            ),
            *(op("aten::mul", start + 13 + 6 * i, start + 14 + 6 * i) for i in range(30)),
            python("train.py(20): penalty", start + 300, start + 400),
            *calls(40, start + 302),
            *calls(12, start + 500),  # of the stepping function: not enough for a loop of its own
            *calls(7, start + 600, "aten::add"),  # 21 in three steps
        ]
        for row in range(5):  # a function with a loop, of which each call is a round
            events.append(
                python("rows.py(8): distance", start + 650 + 60 * row, start + 700 + 60 * row)
            )
            events += calls(20, start + 651 + 60 * row, "aten::sub")
        events += [  # what the training process loads is no part of the model
            annotation(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                start + 945,
                start + 995,
            ),
            python("data.py(5): collate", start + 946, start + 994),
            *calls(20, start + 948, "aten::sub"),
        ]
    held = {
        (site.name.removeprefix(LOOPED), site.file, site.function): site.calls
        for site in open_events(tmp_path, events).sites
        if site.name.startswith(LOOPED)
    }
    assert held == {  # of two steps: the first is none that counts
        ("aten::mul", "solver/ode.py", "solve"): 60,
        ("aten::mul", "train.py", "penalty"): 80,
        ("aten::mul", "train.py", "main"): 24,
        ("aten::sub", "train.py", "main"): 200,
    }


@pytest.mark.parametrize("backward_calls", [0, 300])  # in nodes of a thread that calls more
def test_a_functions_own_operators_without_a_graph_are_told_with_their_time_on_the_device(
    tmp_path: Path, backward_calls: int
) -> None:
    node = "autograd::engine::evaluate_function: PowBackward0"
    events = [
        *training(),
        python("train.py(30): penalty", 2700, 2780),
        writing.host("cpu_op", "aten::logsumexp", 2701, 2720, **{"Sequence number": 7}),
        writing.host("cpu_op", "aten::exp", 2705, 2715, **{"Sequence number": 7}),
        call(501, 2706, 2708),
        kernel("k", 501, 2800, 2840),
        writing.host("cpu_op", "aten::pow", 2730, 2740, **{"Sequence number": 7}),
        call(502, 2732, 2734),
        kernel("k", 502, 2845, 2860),
        python("torch/nn/functional.py(3000): relu", 2750, 2770),
        writing.host("cpu_op", "aten::relu", 2751, 2769, **{"Sequence number": 8}),
        call(503, 2752, 2754),
        kernel("k", 503, 2860, 2880),
        python("torch/nn/modules/activation.py(100): forward", 2771, 2779),
        writing.host("cpu_op", "aten::tanh", 2772, 2778, **{"Sequence number": 9}),
        call(504, 2773, 2774),
        kernel("k", 504, 2880, 2890),
        writing.host("cpu_op", node, 2800, 2820, tid=2, **{"Sequence number": 7}),
        *(
            writing.host("cpu_op", "aten::mul", 2801 + row / 20, 2801 + row / 20 + 0.02, tid=2)
            for row in range(backward_calls)
        ),
    ]
    sites = open_events(tmp_path, events).sites
    own = {
        (site.name.removeprefix(ON_DEVICE), site.ns, site.calls)
        for site in sites
        if site.name.startswith(ON_DEVICE) and site.function == "penalty"
    }
    assert own == {("aten::logsumexp", 40 * US, 1), ("aten::relu", 20 * US, 1)}
