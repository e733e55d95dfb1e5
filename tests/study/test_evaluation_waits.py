"""What an evaluation waits for its own batches is part of it, not of waiting for data."""

import pytest

from gapless.model.run import LoaderUse
from gapless.recorded.loaders.waits import loader_waits
from gapless.recorded.steps.loader_use import loader_uses
from gapless.recorded.steps.rows import charge_training
from gapless.recorded.training.processes import trainings
from gapless.study import study_recording
from tests.study.recording import MS, Log, recording

TRAINING, VALIDATION = 0, 1


def evaluating_log(*, put_back_late: bool) -> Log:
    """Return 20 steps of 40 ms that wait 10 for a batch, and after every fifth an evaluation.

    It waits three times 30 ms for batches of its own, and computes for 10. The next batch of the
    training comes before the model is in training mode again, or after that.
    """
    log = Log(end=2000)
    log.add_fact("loader", TRAINING, ("train.py", 10), num_workers=0)
    log.add_fact("loader", VALIDATION, ("train.py", 20), num_workers=0)
    now = 100
    log.add_steps(now)
    for step in range(20):
        if step and step % 5 == 0:
            log.add_mark("mode", now + 1, value=0)
            for batch in range(3):
                log.add_mark("next", now + 1, now + 31, value=batch, subject=VALIDATION)
                now += 33
            now += 1
            if not put_back_late:
                log.add_mark("mode", now, value=1)
        log.add_mark("next", now, now + 10, value=step, subject=TRAINING)
        if put_back_late and step and step % 5 == 0:
            log.add_mark("mode", now + 10, value=1)
        now += 40
        log.add_steps(now)
    return log


def run_leaves(log: Log) -> dict[str, int]:
    training = trainings(recording(log))[0]
    row = charge_training(training, loader_waits(training)).row
    assert sum(row.sum_by_leaf().values()) == training.end - training.start
    return row.sum_by_leaf()


def uses_of(log: Log) -> dict[int, LoaderUse]:
    training = trainings(recording(log))[0]
    return {use.id: use for use in loader_uses([charge_training(training, loader_waits(training))])}


@pytest.mark.parametrize("put_back_late", [False, True])
def test_the_waits_of_an_evaluation_are_charged_to_it(*, put_back_late: bool) -> None:
    leaves = run_leaves(evaluating_log(put_back_late=put_back_late))
    assert leaves["data.main"] == 20 * 10 * MS
    assert leaves["evaluation"] == 3 * 99 * MS
    assert "unknown" not in leaves


@pytest.mark.parametrize("put_back_late", [False, True])
def test_a_loader_is_charged_for_what_the_training_waits_alone(*, put_back_late: bool) -> None:
    uses = uses_of(evaluating_log(put_back_late=put_back_late))
    steps_ns = (20 * 40 + 3 * 100) * MS
    assert uses[TRAINING].share == pytest.approx(20 * 10 * MS / steps_ns, rel=0.02)
    assert uses[TRAINING].evaluation_ns == 0
    assert uses[VALIDATION].share == 0.0
    assert uses[VALIDATION].evaluation_ns == uses[VALIDATION].wait_ns == 9 * 30 * MS


def test_a_model_that_trains_in_evaluation_mode_is_still_waited_for() -> None:
    log = Log(end=2000)
    log.add_fact("loader", TRAINING, ("train.py", 10), num_workers=0)
    for end in range(100, 1000, 100):
        log.add_steps(end)
        log.add_mark("mode", end + 1, value=0)
        for batch in range(2):
            start = end + 2 + 10 * batch
            log.add_mark("next", start, start + 10, value=batch, subject=VALIDATION)
        log.add_mark("next", end + 30, end + 50, subject=TRAINING)  # still in evaluation mode
        log.add_mark("mode", end + 50, value=1)
    assert run_leaves(log)["data.main"] == 9 * 20 * MS


def test_added_up_waits_of_an_evaluation_are_charged_to_it_too() -> None:
    log = Log(end=1000)
    log.add_fact("loader", VALIDATION, ("train.py", 20), num_workers=0)
    log.add_steps(100, 200, 300, 700, 800)
    log.add_mark("mode", 310, value=0)
    log.add_mark("mode", 600, value=1)
    log.add_mark_sum("next", (315, 590), 8, total=200, subject=VALIDATION)
    leaves = run_leaves(log)
    assert leaves["evaluation"] == 290 * MS
    assert not any(leaf.startswith("data.") for leaf in leaves)


def test_the_report_of_an_evaluation_names_the_loader_that_it_waits_for() -> None:
    study = study_recording(recording(evaluating_log(put_back_late=True)))
    diagnosis = study.diagnosis
    assert diagnosis is not None
    sentences = [
        finding.detection.summary
        for finding in (*diagnosis.findings, *diagnosis.present)
        if finding.detection.name == "evaluation-in-the-way"
    ]
    assert len(sentences) == 1
    assert sentences[0].endswith("; 91 % of it waits for its loader (train.py:20).")
    assert study.recorded is not None
    account = study.recorded.account
    assert account is not None
    assert sum(account.account.leaves.values()) == account.account.wall_ns


def test_a_loader_of_a_process_that_only_tests_has_no_share_of_steps() -> None:
    trainer = Log(pid=11, rank=None, end=1000)
    trainer.add_fact("loader", TRAINING, ("train.py", 10), num_workers=0)
    tester = Log(pid=10, rank=None, end=1000)
    tester.add_fact("loader", VALIDATION, ("train.py", 20), num_workers=0)
    for step in range(20):
        start = 100 + 40 * step
        trainer.add_mark("next", start, start + 10, value=step, subject=TRAINING)
        trainer.add_steps(start + 39)
        tester.add_mark("next", start, start + 30, value=step, subject=VALIDATION)
    rows = [
        charge_training(run, loader_waits(run)) for run in trainings(recording(trainer, tester))
    ]
    uses = {use.id: use for use in loader_uses(rows)}
    assert uses[TRAINING].share == pytest.approx(0.25, abs=0.01)
    assert uses[VALIDATION].share is None
    assert uses[VALIDATION].waits == 20
    alone = loader_uses([row for row in rows if row.training.process.pid == tester.pid])
    assert alone[0].share == pytest.approx(0.75, abs=0.02)


def test_a_trainer_and_a_tester_with_the_same_loader_are_told_apart() -> None:
    logs = [Log(pid=pid, rank=None, end=1000) for pid in (10, 11)]
    for log, length in zip(logs, (30, 10), strict=True):
        log.add_fact("loader", TRAINING, ("train.py", 10), num_workers=0)
        for step in range(20):
            start = 100 + 40 * step
            log.add_mark("next", start, start + length, value=step, subject=TRAINING)
    logs[1].add_steps(*(139 + 40 * step for step in range(20)))
    rows = [charge_training(run, loader_waits(run)) for run in trainings(recording(*logs))]
    training_use, testing_use = loader_uses(rows)
    assert (training_use.waits, training_use.mean_ns) == (20, 10_000_000)
    assert training_use.share == pytest.approx(0.25, abs=0.01)
    assert (testing_use.waits, testing_use.mean_ns, testing_use.share) == (20, 30_000_000, None)
