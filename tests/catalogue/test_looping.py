"""What loops over data take, where they are, and what rewriting them leaves."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of as stated
from gapless.catalogue.examples.parts import operator, source_line
from gapless.catalogue.examples.work import example_work
from gapless.catalogue.queries import loops
from gapless.catalogue.queries.lines.loop_functions import find_loop_function
from gapless.catalogue.rules.host.anomaly_mode import CHECK_OPERATOR, anomaly_mode
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.host_code import CallLine, HostCode, HotLine
from gapless.model.study import LOOPED, Site

_LEAVES = {"busy.elementwise": 4, "busy.math": 6, "idle.host.python": 10}
_CELL = ((32, 48), (32, 48))


def _loop_evidence(*parts: object, tensors: int = 4, calls: int = 400, ms: float = 4.0) -> Evidence:
    work = example_work("aten::mul", _CELL, ms, "busy.elementwise", calls=calls)
    large = example_work("aten::mm", ((512, 512), (512, 512)), 6, "busy.math", calls=10)
    return stated(
        example_facts.cpu(example_facts.optimizer(tensors=tensors)), _LEAVES, work, large, *parts
    )


def _remaining_range(evidence: Evidence) -> tuple[float, float]:
    loop = loops.find_loop(evidence)
    assert loop is not None
    factor = loops.rewrite_loop(evidence, loop).factor
    return factor.low, factor.high


def test_layers_are_no_loop_over_data() -> None:
    assert loops.find_loop(_loop_evidence(tensors=101)) is None
    assert loops.find_loop(_loop_evidence(tensors=100)) is not None


def test_a_loop_of_a_few_rounds_is_none_though_it_adds_often() -> None:
    body = (
        example_work(f"aten::op{index}", _CELL, 0.1, "busy.other", calls=8) for index in range(60)
    )
    assert loops.find_loop(_loop_evidence(*body, calls=400)) is None


def test_micro_batches_and_closures_are_no_loop_over_data() -> None:
    gradients = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert loops.find_loop(_loop_evidence(operator(gradients, 4 * 40, 0.1))) is None
    assert loops.find_loop(_loop_evidence(operator(gradients, 4, 0.1))) is not None


def test_cells_that_are_called_for_each_word_are_a_loop_though_they_compute_for_long() -> None:
    cell_evidence, conv_evidence = (
        stated(
            example_facts.cpu(example_facts.optimizer(tensors=7)),
            {"busy.other": 6, "busy.math": 4, "idle.host.python": 4},
            example_work(name, ((32, 64), (32, 96)), 5.8, "busy.other", calls=40),
            example_work("aten::select", ((32, 40, 64),), 0.2, "busy.other", calls=40),
            example_work("aten::add_", ((96, 64),), 0.5, "busy.optimizer", calls=98),
        )
        for name in ("aten::lstm_cell", "aten::conv2d")
    )
    loop = loops.find_loop(cell_evidence)
    assert loop is not None
    assert dict(loop.main_operators) == {"aten::lstm_cell": 40, "aten::select": 40}
    conv_loop = loops.find_loop(conv_evidence)
    assert conv_loop is None or "aten::conv2d" not in dict(conv_loop.main_operators)


def test_elements_that_are_assigned_numbers_are_not_told_of_as_torch_tensor() -> None:
    rows = [
        example_work(f"aten::{name}", (), 0.5, "busy.other", calls=400)
        for name in ("lift_fresh", "copy_", "detach_")
    ]
    assigned_loop, built_loop = (
        loops.find_loop(_loop_evidence(*chosen_rows)) for chosen_rows in (rows[:2], rows)
    )
    assert assigned_loop is not None
    assert built_loop is not None
    assert (assigned_loop.n_tensors, built_loop.n_tensors) == (0, 400)


def test_a_policy_that_acts_is_not_told_of_as_torch_tensor() -> None:
    """One tensor of each observation is little of what a policy, which samples actions, calls."""
    names = ["lift_fresh", "detach_", *(f"op{index}" for index in range(30))]
    loop = loops.find_loop(
        _loop_evidence(
            *(example_work(f"aten::{name}", (), 0.1, "busy.other", calls=30) for name in names),
            calls=30,
        )
    )
    assert loop is not None
    assert loop.n_tensors == 0


def test_without_stacks_a_function_beside_a_loop_does_not_stand_for_it() -> None:
    for share, line in ((0.2, None), (0.6, 8)):
        code = HostCode("python", share, 1.0, "/job/train.py", 8, "Env.step", None, share, 200)
        evidence = _loop_evidence(code)
        loop = loops.find_loop(evidence)
        assert loop is not None
        location = find_loop_function(evidence, loop)
        assert (None if location is None else location.line) == line


def test_samples_that_go_through_a_layer_one_by_one_are_a_loop_however_long() -> None:
    single_loop, batched_loop = (
        loops.find_loop(
            _loop_evidence(example_work("aten::lstm", sizes, 40, "busy.other", calls=32))
        )
        for sizes in (((1, 40, 64), (384, 64)), ((32, 40, 64), (384, 64)))
    )
    assert single_loop is not None
    assert batched_loop is not None
    assert "aten::lstm" in dict(single_loop.main_operators)
    assert "aten::lstm" not in dict(batched_loop.main_operators)


def test_operators_that_compute_for_long_are_no_loop() -> None:
    assert loops.find_loop(_loop_evidence(calls=60, ms=60)) is None


def test_a_device_has_a_rule_of_its_own() -> None:
    work = example_work("aten::mul", _CELL, 4, "busy.elementwise", calls=400)
    assert loops.find_loop(stated(example_facts.gpu(), _LEAVES, work)) is None


def test_what_goes_is_at_least_a_seventh_and_never_what_others_compute() -> None:
    low, high = _remaining_range(_loop_evidence())
    assert 0.8 < high < 1.0
    assert 6 / 20 - 1e-9 < low < 0.5


def test_views_of_large_tensors_compute_nothing() -> None:
    large = ((4096, 4096), (1,))
    view_loop, copy_loop = (
        loops.find_loop(
            _loop_evidence(example_work(name, large, 4.0, "busy.elementwise", calls=400))
        )
        for name in ("aten::select", "aten::copy_")
    )
    assert view_loop is not None
    assert copy_loop is not None
    assert view_loop.work_share > copy_loop.work_share


def test_the_line_of_a_loop_is_where_its_own_code_was_sampled() -> None:
    sampled_code = HostCode("python", 0.3, 1.0, "/job/train.py", 37, "fit", None, 0.3, 90)
    parts = (
        Site("aten::mul", "train.py", 31, "fit", 1_000_000, 4000),
        source_line("train.py", 31, "fit", calls=1, host=9, total=14),
        source_line("train.py", 17, "forward", calls=1, host=6, total=6),
    )
    for extra_parts, line in (((), 31), ((sampled_code,), 37)):
        evidence = _loop_evidence(*parts, *extra_parts)
        loop = loops.find_loop(evidence)
        assert loop is not None
        location = find_loop_function(evidence, loop)
        assert location is not None
        assert (location.line, location.function) == (line, "fit")


def test_the_line_of_a_loop_is_where_it_calls_what_the_window_saw_called_so_often() -> None:
    loss, model = "/torch/nn/modules/loss.py", "/job/train.py"
    evidence = _loop_evidence(
        Site("aten::mul", "train.py", 31, "fit", 1_000_000, 4000),
        source_line("train.py", 31, "fit", calls=1, host=9, total=14),
        source_line("torch/nn/modules/loss.py", 90, "forward", calls=60, host=6, total=6),
        source_line("train.py", 17, "forward", calls=1, host=6, total=6),
        HostCode("python", 0.3, 1.0, "/job/train.py", 39, "fit", None, 0.3, 90),
        CallLine("/job/train.py", 34, "fit", model, "Net.forward", 0.3),
        CallLine("/job/train.py", 35, "fit", loss, "CrossEntropyLoss.forward", 0.2),
    )
    loop = loops.find_loop(evidence)
    assert loop is not None
    assert find_loop_function(evidence, loop) == Location("/job/train.py", 35, "fit")


def test_the_line_of_a_loop_in_the_stepping_function_is_not_that_of_its_passes() -> None:
    evidence = _loop_evidence(
        Site("aten::mul", "train.py", 31, "fit", 1_000_000, 4000),
        source_line("train.py", 31, "fit", calls=1, host=9, total=14),
        HostCode("python", 0.3, 1.0, "/job/train.py", 33, "Trainer.fit", None, 0.3, 90),
        CallLine("/job/train.py", 33, "Trainer.fit", "/job/model.py", "Net.forward", 0.3),
        CallLine("/job/train.py", 40, "Trainer.fit", "torch/_tensor.py", "Tensor.backward", 0.3),
        HotLine("training", "/job/train.py", 36, "Trainer.fit", 30, 0.25),
    )
    loop = loops.find_loop(evidence)
    assert loop is not None
    assert find_loop_function(evidence, loop) == Location("/job/train.py", 36, "fit")


def test_a_loop_that_calls_as_many_operators_stands_before_the_backward_pass() -> None:
    parts = (
        Site("autograd::engine::evaluate_function: MulBackward0", "train.py", 31, "fit", 5, 2000),
        Site("aten::mul", "train.py", 31, "fit", 1_000_000, 5000),
        source_line("layers.py", 9, "product", calls=2, host=9, total=14),
    )
    for calls, location in (
        (4000, Location("layers.py", 9, "product")),
        (400, Location("train.py", 31, "fit")),
    ):
        evidence = _loop_evidence(*parts, Site("aten::mul", "layers.py", 9, "product", 5, calls))
        loop = loops.find_loop(evidence)
        assert loop is not None
        assert find_loop_function(evidence, loop) == location


def test_slow_calls_may_compute_and_promise_less_for_certain() -> None:
    usual_range, slow_range = (
        _remaining_range(_loop_evidence(ms=2)),
        _remaining_range(_loop_evidence(ms=16)),
    )
    assert slow_range[1] > usual_range[1] - 0.02


def test_the_loop_is_in_the_innermost_function_that_it_does_not_call() -> None:
    evidence = _loop_evidence(
        Site("aten::mul", "train.py", 17, "cell", 1_000_000, 4000),
        source_line("train.py", 17, "cell", calls=60, host=9, total=14),  # a step
        source_line("train.py", 31, "forward", calls=1, host=2, total=16),
        source_line("train.py", 58, "main", calls=1, host=1, total=20),
        source_line("torch/nn/module.py", 99, "_call_impl", calls=1, host=1, total=15),
    )
    loop = loops.find_loop(evidence)
    assert loop is not None
    assert find_loop_function(evidence, loop) == Location("train.py", 31, "forward")


def test_a_loop_whose_operators_no_backward_pass_follows_has_no_part_in_one() -> None:
    node = "autograd::engine::evaluate_function: {}Backward0"
    engine = {"busy.elementwise": 6, "idle.host.python": 4, "idle.host.engine": 10}
    backward = example_work("aten::mul", _CELL, 1, "busy.elementwise", calls=90, backward=True)
    forward = example_work("aten::mul", _CELL, 4, "busy.elementwise", calls=400)
    shares: list[float] = []
    for n_nodes in (90, 400, 0):  # of a recurrent network's own loop; of this one; not recorded
        rows = (operator(node.format("Mul"), n_nodes, 1.0),) if n_nodes else ()
        facts = example_facts.cpu(example_facts.optimizer(tensors=4))
        loop = loops.find_loop(stated(facts, engine, forward, backward, *rows))
        assert loop is not None
        shares.append(loop.engine_share)
    assert shares == [0.0, 1.0, 1.0]


def test_a_loop_takes_nothing_of_another_functions_rounds() -> None:
    def held(calls: int, *place: str | int) -> Site:
        return Site(f"{LOOPED}aten::mul", str(place[0]), int(place[1]), str(place[2]), 5, calls)

    parts = (
        Site("aten::mul", "train.py", 31, "fit", 2_000_000, 2500),
        Site("aten::mul", "ode.py", 5, "solve", 1_000_000, 1500),
        source_line("train.py", 31, "fit", calls=1, host=9, total=14),
    )
    own_loop, all_loops = (
        loops.find_loop(_loop_evidence(*parts, *sites))
        for sites in ((held(2500, "train.py", 31, "fit"), held(1500, "ode.py", 5, "solve")), ())
    )
    assert own_loop is not None
    assert all_loops is not None
    assert (own_loop.calls, all_loops.calls) == (250, 400)
    assert own_loop.python_share / all_loops.python_share == pytest.approx(250 / 400)
    assert own_loop.work_share / all_loops.work_share == pytest.approx(250 / 400)
    evidence = _loop_evidence(
        *parts, held(1500, "train.py", 31, "fit"), held(2500, "ode.py", 5, "solve")
    )
    solver_loop = loops.find_loop(evidence)
    assert solver_loop is not None
    assert find_loop_function(evidence, solver_loop) == Location("ode.py", 5, "solve")


def test_the_line_of_a_loop_is_where_the_lambda_is_written_that_is_mapped() -> None:
    evidence = _loop_evidence(
        Site("aten::mul", "train.py", 36, "<lambda>", 1_000_000, 4000),
        source_line("train.py", 36, "<lambda>", calls=400, host=9, total=14),
        source_line("train.py", 17, "forward", calls=1, host=9, total=14),
        HotLine("training", "/job/train.py", 36, "fit.<lambda>", 20, 0.2),
        HotLine("training", "/job/train.py", 36, "fit", 30, 0.25),
    )
    loop = loops.find_loop(evidence)
    assert loop is not None
    assert find_loop_function(evidence, loop) == Location("/job/train.py", 36, "fit")


def test_anomaly_detection_is_blamed_on_the_line_that_switched_it_on() -> None:
    facts = example_facts.cpu(example_facts.precision(anomaly=True, anomaly_at="/job/train.py:12"))
    (detection,) = anomaly_mode(stated(facts, {"busy.math": 20}, operator(CHECK_OPERATOR, 200, 4)))
    assert isinstance(detection, Detection)
    assert detection.location == Location("/job/train.py", 12)


def test_anomaly_detection_within_a_step_is_seen_by_its_checks() -> None:
    facts = example_facts.cpu(example_facts.precision(anomaly=False))
    (detection,) = anomaly_mode(stated(facts, {"busy.math": 20}, operator(CHECK_OPERATOR, 200, 4)))
    assert isinstance(detection, Detection)
    assert detection.location is None
