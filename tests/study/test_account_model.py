"""What changes give of a training thread without a device: nothing goes twice."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, gpu, worker_loader
from gapless.catalogue.examples.parts import example_use, example_workers, operator
from gapless.model.change import Change, Drop, HostChange, Omit, Scale
from gapless.model.estimate import Estimate
from gapless.pricing.simulators import account_model
from gapless.pricing.simulators.simulator import RunSimulator

EVIDENCE = evidence_of(cpu(), {"busy.math": 10, "busy.optimizer": 6, "idle.host.python": 4})
HALF = Estimate(0.5, 0.5, 0.5)


def mid(*changes: Change) -> float:
    speedup = account_model.predict_by_account(EVIDENCE, changes).speedup
    assert speedup is not None
    return speedup.mid


def test_a_leaf_that_two_changes_drop_goes_once() -> None:
    drop = Drop(("busy.optimizer",))
    assert mid(drop, drop) == mid(drop) == pytest.approx(20 / 14)
    assert mid(drop, Drop(("busy.",))) == pytest.approx(20 / 4)


def test_of_a_leaf_each_change_takes_a_share_of_what_the_others_leave() -> None:
    half = HostChange(("busy.optimizer",), HALF)
    assert mid(half, half) == pytest.approx(20 / (20 - 4.5))
    assert mid(half, Scale(HALF, leaves=("busy.",))) == pytest.approx(20 / (20 - 4.5 - 5))


def test_changes_of_different_leaves_add_up() -> None:
    speedup = mid(Drop(("busy.optimizer",)), Drop(("idle.host.",)))
    assert speedup == pytest.approx(20 / 10)


def test_calls_within_calls_that_changes_omit_go_once() -> None:
    outer = replace(operator("aten::clip", calls=1, host_ms=8), host_self_ns=0)
    inner = operator("aten::norm", calls=9, host_ms=6)
    nested = evidence_of(cpu(), {"busy.math": 20}, outer, inner)

    def gain(*changes: Change) -> Estimate:
        speedup = account_model.predict_by_account(nested, changes).speedup
        assert speedup is not None
        return speedup

    clip, norm = Omit(("aten::clip",)), Omit(("aten::norm",))
    assert gain(clip, norm).mid == gain(clip).mid == pytest.approx(20 / 12)
    assert gain(clip, norm).high == pytest.approx(20 / 6)  # where they do not lie within another
    assert gain(norm, norm) == gain(norm)
    assert gain(norm, Omit(("aten::norm",), keep=0.5)).mid == gain(norm).mid


def test_beside_a_device_samples_are_priced_off_the_plain_step() -> None:
    """No window has to be like it, and no more goes than the device waits."""
    evidence = evidence_of(gpu(), {"busy.math": 8, "idle.host.python": 12})
    sampled = HostChange(("idle.host.",), Estimate(0.25, 0.5, 0.75), sampled=True)
    speedup = RunSimulator(plain=evidence).play([sampled]).speedup
    assert speedup is not None
    assert speedup.mid == pytest.approx(20 / 14)
    assert speedup.low == pytest.approx(20 / 17)
    assert RunSimulator(plain=evidence).play([Drop(("idle.host.",))]).speedup is None


def test_workers_that_are_mostly_idle_do_not_limit_a_shorter_step() -> None:
    loader = worker_loader()

    def low(busy: float) -> float:
        use = example_use(loader, {"hand-over": 2}, example_workers(1, {"read": 1}, busy=busy))
        evidence = evidence_of(gpu(loader), {"busy.math": 18, "idle.data.hand-over": 2}, use)
        half = HostChange(("busy.math",), HALF, sampled=True)
        speedup = account_model.predict_by_account(evidence, [half]).speedup
        assert speedup is not None
        return speedup.low

    assert (low(0.9), low(0.2)) == (1.0, pytest.approx(20 / 11))
