"""Of several optimizers each is priced by its own part of the time."""

from dataclasses import replace

import pytest

from gapless.catalogue import examples, optimizing
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import kernel, operator
from gapless.model.change import Hosted, Merge
from gapless.model.edit import Where
from gapless.model.facts import Optimizer
from gapless.model.seen import Seen

WORK = {"busy.math": 10.0, "busy.optimizer": 8.0}
ADAM = examples.optimizer(device="cpu")
OTHER = examples.optimizer(id=2, device="cpu", where=Where("train.py", 60, "main"))
SGD = examples.optimizer(id=3, name="torch.optim.sgd.SGD", device="cpu")
STEPS = (
    operator("Optimizer.step#AdamW.step", calls=2, host_ms=6),
    operator("Optimizer.step#SGD.step", calls=1, host_ms=2),
)


def gone(of: Seen, one: Optimizer | None = None) -> float:
    (change,) = optimizing.faster(of, "fused", one)
    assert isinstance(change, Hosted)
    return 1 - change.factor.low


def test_two_of_a_class_share_the_time_of_their_class_by_their_parameters() -> None:
    alone = gone(seen(examples.cpu(ADAM), WORK, STEPS[0]), ADAM)
    both = seen(examples.cpu(ADAM, OTHER), WORK, STEPS[0])
    parts = [gone(both, one) for one in (ADAM, OTHER)]
    assert parts[0] == parts[1]
    assert 0.3 * alone < parts[0] < 0.7 * alone


def test_those_of_another_class_have_their_own_time() -> None:
    of = seen(examples.cpu(ADAM, SGD), WORK, *STEPS)
    assert gone(of, ADAM) == pytest.approx(0.75 * gone(of))
    hidden = seen(examples.cpu(ADAM, SGD), WORK, STEPS[1])
    assert gone(hidden, ADAM) > 0


def test_those_of_one_line_are_one() -> None:
    twins = examples.cpu(ADAM, examples.optimizer(id=2, device="cpu"))
    of = seen(twins, WORK, STEPS[0])
    assert gone(of, ADAM) == pytest.approx(gone(of))


def test_on_a_device_those_of_the_same_class_keep_what_they_launch() -> None:
    """Frames of a step are named by their class: one of two that are alike becomes fused."""
    small = examples.optimizer(id=2, tensors=1, where=Where("train.py", 60, "main"))
    large = examples.optimizer(tensors=99)
    work = {"busy.math": 10.0, "busy.optimizer": 4.0}
    step = operator("Optimizer.step#AdamW.step", calls=2, host_ms=6)
    kernels = kernel("vectorized_elementwise", calls=1000, ms=4, leaf="busy.optimizer")

    def merged(*known: Optimizer, of: Optimizer) -> Merge:
        (change,) = optimizing.faster(seen(examples.gpu(*known), work, step, kernels), "fused", of)
        assert isinstance(change, Merge)
        return change

    alone = merged(large, of=large)
    few, most = merged(large, small, of=small), merged(large, small, of=large)
    assert few.launches == pytest.approx(0.5 * alone.launches + 0.99 * 500, abs=1)
    assert few.device.mid > 0.98
    assert most.launches < few.launches / 4
    assert alone.device.mid < most.device.mid < few.device.mid


def test_where_some_are_fused_the_others_are_priced() -> None:
    fused = operator("aten::_fused_adamw_", calls=1, host_ms=1)
    done = examples.optimizer(id=1, device="cpu", fused=True)
    both = seen(examples.cpu(done, OTHER), WORK, STEPS[0], fused)
    assert optimizing.way(both) == "loop"
    assert optimizing.place(both) == OTHER.where
    assert 0 < gone(both) < gone(seen(examples.cpu(ADAM, OTHER), WORK, STEPS[0]))
    every = seen(examples.cpu(done, replace(OTHER, fused=True)), WORK, STEPS[0], fused)
    assert optimizing.way(every) == "fused"
