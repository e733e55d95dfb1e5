"""What a run's page says of others on the machine, beginnings, optimizers, loaders, endings."""

import io

from gapless import wire
from gapless.model.recording import Unobserved
from gapless.model.study import Study
from gapless.report.run.page import print_run
from gapless.study import Options, study_recording
from tests.study.recording import Log, recording


def page_text(study: Study) -> str:
    stream = io.StringIO()
    print_run(study, stream)
    return stream.getvalue()


def test_processors_that_others_had_stand_before_the_account() -> None:
    log = Log(end=1000)
    log.add_fact("machine", 0, None, cpus=4, cpus_of_machine=4)
    log.add_steps(100, 200, 300)
    series = {
        "cpu.foreign": ([0.0, 1000.0], [150.0, 50.0]),
        "cpu.stolen": ([0.0, 1000.0], [8.0, 8.0]),
    }
    text = page_text(study_recording(recording(log, series=series), Options()))
    above, _, _ = text.partition("where a step goes")
    assert (
        "not alone: other processes took 1 of 4 processors (25 %), the hypervisor gave away 0.08 "
        "of 4 processors (2.0 %) on average"
    ) in " ".join(above.split())
    series["cpu.foreign"] = ([0.0, 1000.0], [20.0, 20.0])
    series["cpu.stolen"] = ([0.0, 1000.0], [1.0, 1.0])
    assert "not alone" not in page_text(study_recording(recording(log, series=series), Options()))


def test_a_first_step_that_came_late_stands_before_the_account() -> None:
    log = Log(end=60_000)
    log.add_mark("next", 2000, 40_000, value=0)
    log.add_steps(*range(41_000, 50_000, 100))
    above, _, _ = page_text(study_recording(recording(log, ended_ms=60_000), Options())).partition(
        "where"
    )
    assert (
        "the first step was done after 41.0 s, 68 % of the whole; 38.0 s of that it waited for the "
        "first batch"
    ) in " ".join(above.split())


def test_phases_one_after_the_other_are_told_apart() -> None:
    log = Log(end=30_000)
    log.add_steps(*range(100, 10_000, 100), subject=1)
    log.add_steps(*range(10_400, 30_000, 400), subject=2)
    log.add_fact("optimizer", 1, ("train.py", 3), **{"class": "torch.optim.sgd.SGD"})
    log.add_fact("optimizer", 2, ("train.py", 9), **{"class": "torch.optim.adamw.AdamW"})
    text = " ".join(page_text(study_recording(recording(log), Options())).split())
    assert (
        "2 phases: 99 steps of 100 ms (SGD.step, train.py:3), then 49 steps of 400 ms (AdamW.step, "
        "train.py:9); other figures are of all"
    ) in text
    assert "they differ by themselves" not in text


def test_a_short_phase_beside_a_long_one_is_not_told_of() -> None:
    log = Log(end=30_000)
    log.add_steps(*range(100, 2000, 100), subject=1)
    log.add_steps(*range(2000, 30_000, 100), subject=2)
    assert "phases" not in page_text(study_recording(recording(log), Options()))


def test_processes_that_are_no_ranks_are_named_each_and_the_first_step_is_the_chosen_ones() -> None:
    parent, *children = (Log(pid=pid, end=60_000) for pid in (1, 2, 3))
    for start in range(30_000, 50_000, 50):
        parent.add_mark("next", start, start + 5, value=0)
    children[0].add_steps(*range(1000, 50_000, 100))
    children[1].add_steps(*range(2000, 48_000, 100))
    text = page_text(study_recording(recording(parent, *children, ended_ms=60_000), Options()))
    flat_text = " ".join(text.split())
    for pid, steps in ((1, 400), (2, 490), (3, 460)):
        assert f"process {pid} (train.py): {steps} steps of" in flat_text
    assert "process 2 (train.py): first step done after 1.00 s" in flat_text
    assert "rank 0" not in flat_text
    assert "the first step was done" not in flat_text, "the parent's tests are no training"


def test_ranks_of_a_world_that_began_again_stay_ranks() -> None:
    first_log, second_log = Log(pid=1, world=2), Log(pid=2, world=2, start=500)
    other_rank = Log(pid=3, rank=1, world=2)
    for log in (first_log, second_log, other_rank):
        log.add_steps(*range(600, 900, 100))
    text = page_text(study_recording(recording(first_log, second_log, other_rank), Options()))
    assert "rank 0: 3 steps" in text
    assert "process 1" not in text


def test_optimizers_beside_the_anchor_are_named() -> None:
    log = Log(end=2000)
    log.add_fact("optimizer", 0, ("gan.py", 9), **{"class": "torch.optim.Adam"})
    log.add_fact("optimizer", 1, ("gan.py", 10), **{"class": "torch.optim.SGD"})
    for end in range(100, 1900, 100):
        log.add_steps(end, end + 20, subject=1)
        log.add_steps(end + 50)
    text = " ".join(page_text(study_recording(recording(log, ended_ms=2000), Options())).split())
    assert "a step ends with Adam.step, gan.py:9 (18 steps" in text
    assert "other optimizers, within these steps: SGD.step gan.py:10 36 times" in text


def test_of_several_loaders_each_has_its_share_of_the_waits() -> None:
    log = Log(end=2000)
    for loader in (0, 1):
        log.add_fact("loader", loader, ("train.py", 41 + loader), num_workers=0)
    for start in range(100, 1900, 100):
        log.add_mark("next", start, start + 10, value=0)
        log.add_mark("next", start + 20, start + 50, value=0, subject=1)
        log.add_steps(start + 90)
    text = " ".join(page_text(study_recording(recording(log, ended_ms=2000), Options())).split())
    assert "num_workers=0; train.py:42 75 % · train.py:41 25 %)" in text


def test_workers_that_are_made_anew_are_counted_by_how_many_there_are_at_a_time() -> None:
    log = Log(end=2000)
    log.add_fact("loader", 0, ("train.py", 41), num_workers=1)
    workers = [Log("worker", 20 + index, worker=0, loader=0) for index in range(3)]
    for index, worker in enumerate(workers):
        worker.add_fetch(100 + 500 * index, 110 + 500 * index)
        log.add_mark("next", 100 + 500 * index, 111 + 500 * index, value=0)
        log.add_steps(120 + 500 * index)
    text = " ".join(
        page_text(study_recording(recording(log, *workers, ended_ms=2000), Options())).split()
    )
    assert "1 worker at a time (3 processes, restarted for epochs): 3 fetches" in text


def test_how_windows_were_saved_is_nothing_that_was_not_seen() -> None:
    log = Log(end=1000)
    log.add_steps(100, 200, 300)
    log.unobserved.append(
        Unobserved("saving beside the training", "the child failed; saved in place")
    )
    assert "saving beside" not in page_text(study_recording(recording(log), Options()))


def test_a_signal_that_ended_the_command_is_named() -> None:
    log = Log(end=None)
    study = study_recording(recording(log, exit_code=-9, status="killed"), Options())
    assert "killed by SIGKILL after 1.00 s" in page_text(study)


def test_loaders_that_one_line_makes_anew_are_one() -> None:
    log = Log(end=2000)
    for epoch in range(3):
        log.add_fact("loader", epoch, ("train.py", 41), num_workers=0, batch_size=8)
        for start in range(100 + 600 * epoch, 700 + 600 * epoch, 100):
            log.add_mark("next", start, start + 30, value=0, subject=epoch)
            log.add_steps(start + 99)
    log.add_fact("loader", 7, ("train.py", 41), num_workers=0, batch_size=4)
    log.add_mark("next", 1950, 1960, value=0, subject=7)
    study = study_recording(recording(log, ended_ms=2000), Options())
    assert study.recorded is not None
    assert [(loader.made, loader.waits) for loader in study.recorded.loaders] == [(3, 18), (1, 1)]
    assert study.recorded.steps is not None
    assert study.recorded.steps.samples_per_s == 80
    assert "num_workers=0), created again 2 times" in " ".join(page_text(study).split())


def test_without_an_optimizer_the_loaders_of_all_epochs_make_the_steps() -> None:
    log = Log(end=2000)
    for epoch in range(3):
        log.add_fact("loader", epoch, ("train.py", 41), num_workers=0, batch_size=8)
        for start in range(100 + 600 * epoch, 700 + 600 * epoch, 100):
            log.add_mark("next", start, start + 30, value=0, subject=epoch)
    study = study_recording(recording(log, ended_ms=2000), Options())
    assert study.recorded is not None
    assert study.recorded.steps is not None
    assert study.recorded.steps.count == 18


def test_a_first_batch_that_did_not_come_is_what_a_run_without_a_step_waited_for() -> None:
    log = Log(end=20_000)
    log.add_mark("next", 4000, 19_000, flags=wire.RAISED)
    above, _, _ = page_text(study_recording(recording(log, ended_ms=20_000), Options())).partition(
        "comm"
    )
    assert "no step in 20.0 s" in above
    assert "15.0 s of 20.0 s it waited for data, and no batch came" in above
