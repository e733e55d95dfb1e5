"""What fixes of the host's work and of copies change, for replay."""

import pytest

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.listing import EFFECTS
from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import (
    example_copies,
    example_use,
    example_workers,
    kernel,
    operator,
)
from gapless.model.change import (
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts
from gapless.pricing.charged import charge_changes

STEP = "Optimizer.step#AdamW.step"
HOST_FIXES = ("fused", "foreach", "set-to-none", "collector", "debug-off", "no-sync")
WORK = {"busy.tc_math": 20.0, "busy.optimizer": 4.0}
FOREACH = (
    operator(STEP, calls=1, host_ms=2, device_ms=4),
    operator("aten::_foreach_addcdiv_", calls=1, host_ms=0.1, device_ms=0.5),
    kernel("multi_tensor_apply_kernel", calls=120, ms=4, leaf="busy.optimizer"),
)
LOOP = (
    operator(STEP, calls=1, host_ms=9, device_ms=4),
    operator("aten::addcdiv_", calls=161, host_ms=1, device_ms=0.5),
    kernel("vectorized_elementwise_kernel", calls=1600, ms=3.2, leaf="busy.optimizer"),
)


def find_effect(
    evidence: Evidence, fix: str, *, override: bool = False
) -> tuple[Change, ...] | None:
    """Return what the first proposal of a fix changes of a run."""
    assert evidence.facts is not None
    proposal = listing.propose_named(fix, evidence.facts, override=override)[0]
    assert proposal.edits, proposal.refused
    return EFFECTS[proposal.fix](evidence, proposal)


def optimizer_evidence(facts: Facts, *parts: object) -> Evidence:
    return evidence_of(facts, WORK, *parts)


@pytest.mark.parametrize("name", HOST_FIXES)
def test_without_windows_nothing_of_the_host_is_known_that_only_windows_show(name: str) -> None:
    facts = example_facts.gpu(
        example_facts.optimizer(foreach=False),
        example_facts.precision(launch_blocking=True),
        example_facts.ddp(),
        example_facts.world(ranks=2, micro_batches=4.0),
        collections=40,
        zero_grad_to_zero=312,
    )
    changes = find_effect(evidence_of(facts, {"busy.math": 10.0}, in_windows={}), name)
    marks = {"collector", "no-sync", "set-to-none"}  # these follow from marks and facts alone
    assert (changes is not None) == (name in marks)


def test_a_fused_optimizer_launches_little_and_moves_less_than_foreach() -> None:
    changes = find_effect(optimizer_evidence(example_facts.gpu(), *FOREACH), "fused")
    assert changes is not None
    (merge,) = changes
    assert isinstance(merge, Merge)
    assert merge.names == (STEP,)
    assert merge.launches == 66  # of 120: the host gathers parameters and states as before
    assert merge.device.mid == pytest.approx(7 / 20)
    assert merge.device.low < merge.device.mid < merge.device.high < 1


def test_of_a_loop_of_empty_kernels_hardly_any_device_time_stays() -> None:
    loop_facts = example_facts.gpu(example_facts.optimizer(foreach=False))
    changes = find_effect(optimizer_evidence(loop_facts, *LOOP), "foreach")
    assert changes is not None
    (merge,) = changes
    assert isinstance(merge, Merge)
    assert merge.launches == 320  # of 1600
    assert merge.device.mid == pytest.approx(0.25)  # 0.5 of 2 µs is beyond an empty kernel


def test_foreach_is_known_to_change_nothing_of_sparse_gradients() -> None:
    loop_facts = example_facts.gpu(example_facts.optimizer(foreach=False))
    sparse_row = operator("aten::_sparse_coo_tensor_with_dims_and_tensors", calls=26, host_ms=0.3)
    for change in find_effect(optimizer_evidence(loop_facts, *LOOP, sparse_row), "foreach") or ():
        assert isinstance(change, HostChange)
        assert change.factor.mid == 1
    assert find_effect(optimizer_evidence(loop_facts, *LOOP, sparse_row), "foreach")


def test_foreach_changes_nothing_where_it_is_in_use() -> None:
    loop_facts = example_facts.gpu(example_facts.optimizer(foreach=False))
    assert find_effect(optimizer_evidence(loop_facts, *FOREACH), "foreach") is None


def test_on_a_cpu_a_share_of_the_optimizers_step_goes() -> None:
    facts = example_facts.cpu(example_facts.optimizer(device="cpu"))
    changes = find_effect(evidence_of(facts, WORK, operator(STEP, calls=1, host_ms=9)), "fused")
    assert changes is not None
    (hosted,) = changes
    assert isinstance(hosted, HostChange)
    assert hosted.leaves == ("idle.host.optimizer", "busy.optimizer")
    assert 0 < hosted.factor.low < hosted.factor.mid < hosted.factor.high < 1


@pytest.mark.parametrize(("tensors", "gains"), [(600, True), (4, False)])
def test_on_a_cpu_foreach_saves_calls_and_moves_memory_more_slowly(
    tensors: int, *, gains: bool
) -> None:
    """Measured with AdamW: 0.57 of the loop's time for small tensors, 1.6 of it for large ones."""
    facts = example_facts.cpu(example_facts.optimizer(device="cpu", tensors=tensors))
    changes = find_effect(evidence_of(facts, WORK, operator(STEP, calls=1, host_ms=9)), "foreach")
    assert changes is not None
    (hosted,) = changes
    assert isinstance(hosted, HostChange)
    assert hosted.factor.mid == pytest.approx(0.6 if gains else 1.65, abs=0.05)


def test_sgd_without_momentum_on_a_cpu_has_nothing_to_fuse_but_its_calls() -> None:
    sgd = example_facts.optimizer(name="torch.optim.sgd.SGD", device="cpu", tensors=4)
    step = operator("Optimizer.step#SGD.step", calls=1, host_ms=4)
    factors: list[float] = []
    for parts in ((step,), (step, operator("aten::mul_", calls=4, host_ms=1))):
        changes = find_effect(evidence_of(example_facts.cpu(sgd), WORK, *parts), "fused")
        assert changes is not None
        (hosted,) = changes
        assert isinstance(hosted, HostChange)
        factors.append(hosted.factor.mid)
    assert factors[0] > 0.99 > factors[1]


def test_the_collector_keeps_the_share_of_the_collections_that_it_still_makes() -> None:
    facts = example_facts.gpu(example_facts.world(steps=1000), collections=100)
    changes = find_effect(evidence_of(facts, {"busy.math": 10.0, "idle.gc": 1.0}), "collector=500")
    assert changes == (Drop(("idle.gc",), keep=0.02),)


def test_gradients_that_are_dropped_are_neither_filled_nor_added_but_in_micro_batches() -> None:
    single_batch = example_facts.gpu(zero_grad_to_zero=312)
    four_batches = example_facts.gpu(example_facts.world(micro_batches=4.0), zero_grad_to_zero=312)
    keeps: list[float] = []
    for facts in (single_batch, four_batches):
        changes = find_effect(evidence_of(facts, WORK), "set-to-none")
        assert changes is not None
        fills, adds = changes
        assert isinstance(fills, Omit)
        assert isinstance(adds, Omit)
        assert fills.keep < 0.2
        keeps.append(adds.keep)
    assert keeps == [pytest.approx(0.4), pytest.approx(0.85)]


def test_launches_that_do_not_wait_take_what_launches_take() -> None:
    facts = example_facts.gpu(example_facts.precision(launch_blocking=True))
    launches = operator("cudaLaunchKernel", calls=100, host_ms=5)
    changes = find_effect(evidence_of(facts, WORK, launches), "debug-off")
    assert changes is not None
    (hosted,) = changes
    assert isinstance(hosted, HostChange)
    assert hosted.factor.mid == pytest.approx(0.1)


def test_without_anomaly_detection_its_checks_and_their_reads_go() -> None:
    facts = example_facts.gpu(example_facts.precision(anomaly=True))
    parts = (
        operator("aten::_is_any_true", calls=30, host_ms=1, device_ms=0.1),
        operator("aten::item", calls=40, host_ms=4),
    )
    changes = find_effect(evidence_of(facts, WORK, *parts), "debug-off", override=True)
    assert changes is not None
    assert changes[0] == Omit(("aten::_is_any_true", "aten::isnan"))
    assert changes[1] == Omit(("aten::item",), keep=0.25)


def test_gradients_exchanged_once_in_four_leave_a_quarter_of_the_communication() -> None:
    parallel_facts = (example_facts.ddp(), example_facts.world(ranks=2, micro_batches=4.0))
    leaves = {"busy.math": 10.0, "comm.exposed": 4.0}
    on_gpu = find_effect(evidence_of(example_facts.gpu(*parallel_facts), leaves), "no-sync")
    assert on_gpu is not None
    assert isinstance(on_gpu[0], Scale)
    assert on_gpu[0].factor.mid == pytest.approx(0.25)
    on_cpu = find_effect(evidence_of(example_facts.cpu(*parallel_facts), leaves), "no-sync")
    assert on_cpu == (HostChange(("comm.", "idle.comm."), Estimate(0.0, 0.25, 0.375)),)


WORKING = example_facts.loader(num_workers=2)


@pytest.mark.parametrize(
    ("fix", "facts", "change"),
    [
        ("pin-memory", example_facts.gpu(WORKING), CopyChange(pinned=True)),
        ("non-blocking", example_facts.gpu(WORKING), CopyChange(pinned=True, non_blocking=True)),
        (
            "non-blocking",
            example_facts.gpu(example_facts.loader(pin_memory=True)),
            CopyChange(non_blocking=True),
        ),
        (
            "device-prefetcher",
            example_facts.gpu(WORKING),
            CopyChange(pinned=True, non_blocking=True, ahead=True),
        ),
        ("no-synchronize", example_facts.gpu(synchronize=300), Omit(("*DeviceSynchronize",))),
    ],
)
def test_copies_are_changed_as_the_fix_says(fix: str, facts: Facts, change: Change) -> None:
    assert find_effect(evidence_of(facts, WORK), fix) == (change,)


def test_without_workers_the_training_thread_pins() -> None:
    changes = find_effect(evidence_of(example_facts.gpu(), WORK), "pin-memory")
    assert changes == (CopyChange(pinned=True), Delay(950_000))


def test_a_step_takes_a_batch_for_each_of_its_backward_passes() -> None:
    facts = example_facts.gpu(
        example_facts.loader(batch_bytes=9 << 20), example_facts.world(micro_batches=4.0)
    )
    copied = example_copies("HtoD", "pageable", calls=8, ms=4, mib=36)
    evidence = evidence_of(facts, WORK, copied)
    changes = find_effect(evidence, "pin-memory")
    assert changes == (CopyChange(pinned=True), Delay(900_000))  # of 36 MiB
    freed = LoaderChange(facts.loaders[0].id, freed_ns=1_000_000)
    assert charge_changes(evidence, (freed,)).own_share == pytest.approx(4 / 24)


def test_where_most_that_is_copied_are_no_batches_pinning_them_is_not_foretold() -> None:
    copies = example_copies("HtoD", "pageable", calls=60, ms=4, mib=36)
    small = example_facts.gpu(example_facts.loader(batch_bytes=400_000))
    assert find_effect(evidence_of(small, WORK, copies), "pin-memory") is None


def test_a_loader_that_is_made_to_pin_is_replayed_with_its_thread_where_it_is_known() -> None:
    loader = example_facts.loader(num_workers=2)
    use = example_use(loader, {"decode": 4}, example_workers(0, {"decode": 0.06}))
    changes = find_effect(evidence_of(example_facts.gpu(loader), WORK, use), "pin-memory")
    assert changes == (CopyChange(pinned=True), LoaderChange(loader.id, pin_memory=True))
    without_workers = evidence_of(
        example_facts.gpu(loader), WORK, example_use(loader, {"decode": 4})
    )
    assert find_effect(without_workers, "pin-memory") == (CopyChange(pinned=True),)
    other_loader = example_facts.loader(id=1, num_workers=2, location=example_facts.OPTIMIZER_LINE)
    two_loaders = evidence_of(example_facts.gpu(loader, other_loader), WORK, use)
    assert find_effect(two_loaders, "non-blocking") == (CopyChange(pinned=True, non_blocking=True),)
