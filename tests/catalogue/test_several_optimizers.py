"""Of several optimizers each is priced by its own part of the time."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import kernel, operator
from gapless.catalogue.queries import optimizer_steps
from gapless.model.change import HostChange, Merge
from gapless.model.edit import Location
from gapless.model.evidence import Evidence
from gapless.model.facts import Optimizer

WORK = {"busy.math": 10.0, "busy.optimizer": 8.0}
ADAM = example_facts.optimizer(device="cpu")
OTHER_ADAM = example_facts.optimizer(id=2, device="cpu", location=Location("train.py", 60, "main"))
SGD = example_facts.optimizer(id=3, name="torch.optim.sgd.SGD", device="cpu")
STEPS = (
    operator("Optimizer.step#AdamW.step", calls=2, host_ms=6),
    operator("Optimizer.step#SGD.step", calls=1, host_ms=2),
)


def removed_share(evidence: Evidence, optimizer: Optimizer | None = None) -> float:
    (change,) = optimizer_steps.change_way(evidence, "fused", optimizer)
    assert isinstance(change, HostChange)
    return 1 - change.factor.low


def test_two_of_a_class_share_the_time_of_their_class_by_their_parameters() -> None:
    alone_share = removed_share(evidence_of(example_facts.cpu(ADAM), WORK, STEPS[0]), ADAM)
    evidence = evidence_of(example_facts.cpu(ADAM, OTHER_ADAM), WORK, STEPS[0])
    shares = [removed_share(evidence, optimizer) for optimizer in (ADAM, OTHER_ADAM)]
    assert shares[0] == shares[1]
    assert 0.3 * alone_share < shares[0] < 0.7 * alone_share


def test_those_of_another_class_have_their_own_time() -> None:
    evidence = evidence_of(example_facts.cpu(ADAM, SGD), WORK, *STEPS)
    assert removed_share(evidence, ADAM) == pytest.approx(0.75 * removed_share(evidence))
    hidden_evidence = evidence_of(example_facts.cpu(ADAM, SGD), WORK, STEPS[1])
    assert removed_share(hidden_evidence, ADAM) > 0


def test_those_of_one_line_are_one() -> None:
    twins = example_facts.cpu(ADAM, example_facts.optimizer(id=2, device="cpu"))
    evidence = evidence_of(twins, WORK, STEPS[0])
    assert removed_share(evidence, ADAM) == pytest.approx(removed_share(evidence))


def test_on_a_device_those_of_the_same_class_keep_what_they_launch() -> None:
    """Frames of a step are named by their class: one of two that are alike becomes fused."""
    small = example_facts.optimizer(id=2, tensors=1, location=Location("train.py", 60, "main"))
    large = example_facts.optimizer(tensors=99)
    work = {"busy.math": 10.0, "busy.optimizer": 4.0}
    step = operator("Optimizer.step#AdamW.step", calls=2, host_ms=6)
    kernels = kernel("vectorized_elementwise", calls=1000, ms=4, leaf="busy.optimizer")

    def find_merge(*optimizers: Optimizer, optimizer: Optimizer) -> Merge:
        (change,) = optimizer_steps.change_way(
            evidence_of(example_facts.gpu(*optimizers), work, step, kernels), "fused", optimizer
        )
        assert isinstance(change, Merge)
        return change

    single_merge = find_merge(large, optimizer=large)
    small_merge, large_merge = (
        find_merge(large, small, optimizer=small),
        find_merge(large, small, optimizer=large),
    )
    assert small_merge.launches == pytest.approx(0.5 * single_merge.launches + 0.99 * 500, abs=1)
    assert small_merge.device.mid > 0.98
    assert large_merge.launches < small_merge.launches / 4
    assert single_merge.device.mid < large_merge.device.mid < small_merge.device.mid


def test_where_some_are_fused_the_others_are_priced() -> None:
    fused_row = operator("aten::_fused_adamw_", calls=1, host_ms=1)
    fused_optimizer = example_facts.optimizer(id=1, device="cpu", fused=True)
    evidence = evidence_of(
        example_facts.cpu(fused_optimizer, OTHER_ADAM), WORK, STEPS[0], fused_row
    )
    assert optimizer_steps.find_way(evidence) == "loop"
    assert optimizer_steps.find_optimizer_line(evidence) == OTHER_ADAM.location
    assert (
        0
        < removed_share(evidence)
        < removed_share(evidence_of(example_facts.cpu(ADAM, OTHER_ADAM), WORK, STEPS[0]))
    )
    all_fused = evidence_of(
        example_facts.cpu(fused_optimizer, replace(OTHER_ADAM, fused=True)),
        WORK,
        STEPS[0],
        fused_row,
    )
    assert optimizer_steps.find_way(all_fused) == "fused"
