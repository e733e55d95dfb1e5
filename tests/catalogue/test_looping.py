"""What loops over data take, where they are, and what rewriting them leaves."""

from gapless.catalogue import examples, looping
from gapless.catalogue.rules.anomaly_mode import CHECK, anomaly_mode
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.seen_parts import operator, source
from gapless.catalogue.work_examples import worked
from gapless.model.edit import Where
from gapless.model.finding import Loss
from gapless.model.host_code import HostCode
from gapless.model.seen import Seen
from gapless.model.study import Site

_LEAVES = {"busy.elementwise": 4, "busy.math": 6, "idle.host.python": 10}
_CELL = ((32, 48), (32, 48))


def _looping(*parts: object, tensors: int = 4, calls: int = 400, ms: float = 4.0) -> Seen:
    work = worked("aten::mul", _CELL, ms, "busy.elementwise", calls=calls)
    large = worked("aten::mm", ((512, 512), (512, 512)), 6, "busy.math", calls=10)
    return stated(examples.cpu(examples.optimizer(tensors=tensors)), _LEAVES, work, large, *parts)


def _left(seen: Seen) -> tuple[float, float]:
    loop = looping.loop_of(seen)
    assert loop is not None
    factor = looping.rewritten(seen, loop).factor
    return factor.low, factor.high


def test_layers_are_no_loop_over_data() -> None:
    assert looping.loop_of(_looping(tensors=101)) is None
    assert looping.loop_of(_looping(tensors=100)) is not None


def test_a_loop_of_a_few_rounds_is_none_though_it_adds_often() -> None:
    body = (worked(f"aten::op{at}", _CELL, 0.1, "busy.other", calls=8) for at in range(60))
    assert looping.loop_of(_looping(*body, calls=400)) is None


def test_micro_batches_and_closures_are_no_loop_over_data() -> None:
    gradients = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert looping.loop_of(_looping(operator(gradients, 4 * 40, 0.1))) is None
    assert looping.loop_of(_looping(operator(gradients, 4, 0.1))) is not None


def test_cells_that_are_called_for_each_word_are_a_loop_though_they_compute_for_long() -> None:
    cells, others = (
        stated(
            examples.cpu(examples.optimizer(tensors=7)),
            {"busy.other": 6, "busy.math": 4, "idle.host.python": 4},
            worked(name, ((32, 64), (32, 96)), 5.8, "busy.other", calls=40),
            worked("aten::select", ((32, 40, 64),), 0.2, "busy.other", calls=40),
            worked("aten::add_", ((96, 64),), 0.5, "busy.optimizer", calls=98),
        )
        for name in ("aten::lstm_cell", "aten::conv2d")
    )
    loop = looping.loop_of(cells)
    assert loop is not None
    assert dict(loop.mainly) == {"aten::lstm_cell": 40, "aten::select": 40}
    other = looping.loop_of(others)
    assert other is None or "aten::conv2d" not in dict(other.mainly)


def test_elements_that_are_assigned_numbers_are_not_told_of_as_torch_tensor() -> None:
    made = [
        worked(f"aten::{name}", (), 0.5, "busy.other", calls=400)
        for name in ("lift_fresh", "copy_", "detach_")
    ]
    assigned, built = (looping.loop_of(_looping(*some)) for some in (made[:2], made))
    assert assigned is not None
    assert built is not None
    assert (assigned.tensors, built.tensors) == (0, 400)


def test_samples_that_go_through_a_layer_one_by_one_are_a_loop_however_long() -> None:
    alone, batched = (
        looping.loop_of(_looping(worked("aten::lstm", sizes, 40, "busy.other", calls=32)))
        for sizes in (((1, 40, 64), (384, 64)), ((32, 40, 64), (384, 64)))
    )
    assert alone is not None
    assert batched is not None
    assert "aten::lstm" in dict(alone.mainly)
    assert "aten::lstm" not in dict(batched.mainly)


def test_operators_that_compute_for_long_are_no_loop() -> None:
    assert looping.loop_of(_looping(calls=60, ms=60)) is None


def test_a_device_has_a_rule_of_its_own() -> None:
    work = worked("aten::mul", _CELL, 4, "busy.elementwise", calls=400)
    assert looping.loop_of(stated(examples.gpu(), _LEAVES, work)) is None


def test_what_goes_is_at_least_a_seventh_and_never_what_others_compute() -> None:
    low, high = _left(_looping())
    assert 0.8 < high < 1.0
    assert 6 / 20 - 1e-9 < low < 0.5


def test_views_of_large_tensors_compute_nothing() -> None:
    large = ((4096, 4096), (1,))
    views, copies = (
        looping.loop_of(_looping(worked(name, large, 4.0, "busy.elementwise", calls=400)))
        for name in ("aten::select", "aten::copy_")
    )
    assert views is not None
    assert copies is not None
    assert views.work > copies.work


def test_the_line_of_a_loop_is_where_its_own_code_was_sampled() -> None:
    sampled = HostCode("python", 0.3, 1.0, "/job/train.py", 37, "fit", None, 0.3, 90)
    parts = (
        Site("aten::mul", "train.py", 31, "fit", 1_000_000, 4000),
        source("train.py", 31, "fit", calls=1, host=9, total=14),
        source("train.py", 17, "forward", calls=1, host=6, total=6),
    )
    for more, line in (((), 31), ((sampled,), 37)):
        seen = _looping(*parts, *more)
        loop = looping.loop_of(seen)
        assert loop is not None
        place = looping.place(seen, loop)
        assert place is not None
        assert (place.line, place.function) == (line, "fit")


def test_slow_calls_may_compute_and_promise_less_for_certain() -> None:
    usual, slow = _left(_looping(ms=2)), _left(_looping(ms=16))
    assert slow[1] > usual[1] - 0.02


def test_the_loop_is_in_the_innermost_function_that_it_does_not_call() -> None:
    seen = _looping(
        Site("aten::mul", "train.py", 17, "cell", 1_000_000, 4000),
        source("train.py", 17, "cell", calls=60, host=9, total=14),  # a step
        source("train.py", 31, "forward", calls=1, host=2, total=16),
        source("train.py", 58, "main", calls=1, host=1, total=20),
        source("torch/nn/module.py", 99, "_call_impl", calls=1, host=1, total=15),
    )
    loop = looping.loop_of(seen)
    assert loop is not None
    assert looping.place(seen, loop) == Where("train.py", 31, "forward")


def test_anomaly_detection_is_blamed_on_the_line_that_switched_it_on() -> None:
    facts = examples.cpu(examples.precision(anomaly=True, anomaly_at="/job/train.py:12"))
    (loss,) = anomaly_mode(stated(facts, {"busy.math": 20}, operator(CHECK, 200, 4)))
    assert isinstance(loss, Loss)
    assert loss.where == Where("/job/train.py", 12)


def test_anomaly_detection_within_a_step_is_seen_by_its_checks() -> None:
    facts = examples.cpu(examples.precision(anomaly=False))
    (loss,) = anomaly_mode(stated(facts, {"busy.math": 20}, operator(CHECK, 200, 4)))
    assert isinstance(loss, Loss)
    assert loss.where is None
