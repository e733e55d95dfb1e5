"""What marks alone tell of other loaders: where a replay is refused, and where it says less."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.example_facts import cpu, gpu, loader, machine
from gapless.catalogue.examples.parts import example_use, example_workers
from gapless.model.change import Change, LoaderChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.pricing.simulators.loader_marks import apply_marks

LOADER = loader(num_workers=2, prefetch_factor=2, iterations=10)
STEP = {"busy.math": 6.0, "idle.data.hand-over": 2.0, "idle.data.start-up": 2.0}
REFUSED = Prediction(None, "feed", refused="threads wait for one another")


def run(batch_ms: float = 0.04, stage: str = "collate", restarts_ms: float = 2.0) -> Evidence:
    use = example_use(
        LOADER,
        {"hand-over": 2.0},
        example_workers(2, {stage: batch_ms}),
        restart_ns=round(100 * restarts_ms * 1_000_000),
    )
    return evidence_of(gpu(LOADER), STEP, use)


def speedup_of(change: Change, evidence: Evidence | None = None) -> Estimate | None:
    return apply_marks(evidence or run(), [change], REFUSED).speedup


def test_workers_that_live_on_leave_what_starting_them_took() -> None:
    alive = speedup_of(LoaderChange(LOADER.id, persistent_workers=True))
    assert alive is not None
    assert alive.mid == pytest.approx(10 / 8.2)  # the first of ten starts is in no step
    assert alive.low == pytest.approx(1 / (1 - 0.85 * 0.18))


def test_without_workers_neither_starts_nor_waits_are_left_but_batches_are_made() -> None:
    without_workers = speedup_of(LoaderChange(LOADER.id, num_workers=0))
    slow_decode = speedup_of(LoaderChange(LOADER.id, num_workers=0), run(0.4, "decode"))
    assert without_workers is not None
    assert 1.25 < without_workers.mid < 10 / 6
    assert without_workers.low < without_workers.mid < without_workers.high
    assert slow_decode is None  # what is not collated takes the training process as long


def test_settings_of_workers_that_shall_not_be_change_nothing() -> None:
    without_workers = speedup_of(LoaderChange(LOADER.id, num_workers=0))
    assert (
        speedup_of(
            LoaderChange(LOADER.id, num_workers=0, persistent_workers=False, prefetch_factor=2)
        )
        == without_workers
    )
    assert speedup_of(LoaderChange(LOADER.id, num_workers=0, intra_op_threads=4)) is None


def test_workers_take_processors_from_operators_that_need_them_all() -> None:
    def speedup_with(cpus: int, threads: int) -> Estimate | None:
        use = example_use(LOADER, {"hand-over": 2.0}, example_workers(2, {"collate": 0.04}))
        facts = cpu(LOADER, machine(cpus=cpus, intra_op_threads=threads, device=None))
        return speedup_of(LoaderChange(LOADER.id, num_workers=0), evidence_of(facts, STEP, use))

    shared, roomy, free = speedup_with(2, 2), speedup_with(8, 2), speedup_with(8, 8)
    assert shared is not None
    assert roomy is not None
    assert free is not None
    assert shared.low > roomy.low
    assert shared.mid > free.mid > roomy.mid
    assert shared.high == free.high  # all wait for the thread that was put aside


def test_of_other_changes_and_other_loaders_marks_tell_nothing() -> None:
    assert speedup_of(LoaderChange(LOADER.id, num_workers=4)) is None
    assert speedup_of(LoaderChange(LOADER.id, persistent_workers=True, num_workers=4)) is None
    assert speedup_of(LoaderChange(LOADER.id + 1, persistent_workers=True)) is None
    changes = [
        LoaderChange(LOADER.id, persistent_workers=True),
        LoaderChange(LOADER.id, num_workers=0),
    ]
    assert apply_marks(run(), changes, REFUSED) == REFUSED


def test_workers_that_start_in_no_time_gain_nothing() -> None:
    assert (
        speedup_of(LoaderChange(LOADER.id, persistent_workers=True), run(restarts_ms=0.01)) is None
    )


def test_a_replay_that_says_more_stands_and_one_that_says_less_is_raised() -> None:
    alive = LoaderChange(LOADER.id, persistent_workers=True)
    higher = Prediction(Estimate(1.3, 1.5, 1.7), "feed")
    stands = apply_marks(run(), [alive], higher)
    assert stands.speedup == higher.speedup
    assert stands.floor == pytest.approx(1 / (1 - 0.85 * 0.18))  # seen, whatever replays are off by
    vague = apply_marks(run(), [alive], Prediction(Estimate(0.6, 1.0, 1.8), "feed"))
    assert vague.speedup is not None
    assert vague.speedup.low > 1.1
    assert vague.speedup.high == pytest.approx(1.8)


def test_on_processors_that_all_work_what_workers_compute_less_is_shared_by_all() -> None:
    vague = Prediction(Estimate(0.8, 1.1, 1.8), "feed")
    change = LoaderChange(LOADER.id, stages={"other": 0.0})

    def low_of(run_queue: float, tried: LoaderChange) -> float:
        workers = example_workers(
            2, {"other": 0.02, "collate": 0.01}, on_cpu=1 - run_queue, run_queue=run_queue
        )
        facts = cpu(LOADER, machine(cpus=2, device=None))
        evidence = evidence_of(facts, STEP, example_use(LOADER, {"hand-over": 2.0}, workers))
        prediction = apply_marks(evidence, [tried], vague)
        assert prediction.speedup is not None
        assert (prediction.speedup.mid, prediction.speedup.high) == (1.1, 1.8)
        return prediction.speedup.low

    assert 1.02 < low_of(0.5, change) < 1.1
    assert low_of(0.05, change) == pytest.approx(0.8)  # they have processors of their own
    persistent = LoaderChange(LOADER.id, stages={"other": 0.0}, prefetch_factor=4)
    assert low_of(0.5, persistent) == pytest.approx(0.8)


def test_where_no_fetch_was_recorded_nothing_is_told_of_a_loader_without_workers() -> None:
    evidence = run()
    assert evidence.study.recorded is not None
    uses = tuple(replace(use, workers=None) for use in evidence.study.recorded.loaders)
    blind = replace(
        evidence,
        study=replace(evidence.study, recorded=replace(evidence.study.recorded, loaders=uses)),
    )
    assert speedup_of(LoaderChange(LOADER.id, num_workers=0), blind) is None
    assert speedup_of(LoaderChange(LOADER.id, persistent_workers=True), blind) is not None


def test_the_first_start_of_workers_is_part_of_no_step() -> None:
    evidence = run()
    assert evidence.study.recorded is not None
    uses = tuple(replace(use, iterations=1) for use in evidence.study.recorded.loaders)
    single_start = replace(
        evidence,
        study=replace(evidence.study, recorded=replace(evidence.study.recorded, loaders=uses)),
    )
    assert speedup_of(LoaderChange(LOADER.id, persistent_workers=True), single_start) is None


def test_what_choosing_samples_takes_stays_without_workers() -> None:
    use = example_use(LOADER, {"sampler": 6.0}, example_workers(2, {"collate": 0.04}))
    step = {"busy.math": 10.0, "idle.data.sampler": 6.0}
    assert (
        speedup_of(LoaderChange(LOADER.id, num_workers=0), evidence_of(gpu(LOADER), step, use))
        is None
    )
