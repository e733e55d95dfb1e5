"""What stood in the way of a batch: another batch before it, or a slow one before others."""

import io

from gapless.model.study import Study
from gapless.report.run.page import print_run
from gapless.study import Options, study_recording
from tests.study.recording import MS, Log, recording


def run(fetches: list[list[tuple[int, int]]], waits: list[tuple[int, int]]) -> Study:
    """Return a run with two workers that fetch in turns, and wait as told; a step after each."""
    main = Log(end=1000)
    main.add_fact("loader", 0, ("train.py", 41), num_workers=2)
    main.add_mark("iter", 0, 1, value=0)
    workers = [Log("worker", 20 + index, worker=index, loader=0) for index in (0, 1)]
    for position, (wait_start, wait_end) in enumerate(waits):
        main.add_mark("dispatch", 1, 1, value=position << 16 | position % 2)
        main.add_mark("next", wait_start, wait_end, value=position)
        main.add_steps(wait_end + 5)
    for worker, worker_fetches in zip(workers, fetches, strict=True):
        for sequence, (start, end) in enumerate(worker_fetches):
            worker.add_fetch(start, end, sequence=sequence)
    return study_recording(recording(main, *workers), Options())


def facets(study: Study) -> tuple[float | None, ...]:
    assert study.recorded is not None
    loader = study.recorded.loaders[0]
    facets_ns = (loader.known_ns, loader.queueing_ns, loader.hol_ns)
    return tuple(None if ns is None else ns / MS for ns in facets_ns)


def page(study: Study) -> str:
    stream = io.StringIO()
    print_run(study, stream)
    return " ".join(stream.getvalue().split())


def test_a_later_batch_that_lies_ready_is_held_up_by_the_one_that_is_due() -> None:
    study = run(
        [[(2, 10), (10, 100)], [(2, 12), (12, 30)]], [(5, 10), (15, 15), (20, 102), (107, 107)]
    )
    # the third batch is due from 20 to 100; the fourth is complete at 30
    assert facets(study) == (5 + 82, 0, 70)
    assert "in 80 % of these waits, later batches lay ready behind a slower one" in page(study)


def test_a_worker_that_is_still_at_a_batch_of_the_last_epoch_lets_the_due_one_wait() -> None:
    main, worker = Log(), Log("worker", 20, worker=0, loader=0)
    main.add_fact("loader", 0, ("train.py", 41), num_workers=1, persistent_workers=True)
    for epoch, offset in enumerate((0, 40)):
        main.add_mark("iter", offset, offset + 1, value=epoch)
        for position in (0, 1):  # the second of the first epoch is never asked for
            main.add_mark("dispatch", offset + 1, value=position << 16)
    for sequence, start, end in ((0, 2, 10), (1, 10, 80), (0, 80, 88), (1, 88, 96)):
        worker.add_fetch(start, end, sequence=sequence)
    for offset, (wait_start, wait_end) in enumerate(((5, 10), (41, 90), (100, 100))):
        main.add_mark("next", wait_start, wait_end, value=(0, 0, 1)[offset])
        main.add_steps(wait_end + 2)
    study = study_recording(recording(main, worker), Options())
    assert facets(study) == (5 + 49, 39, 0)
    assert "in 72 % of these waits, the worker of the batch was still at another one" in page(study)


def test_waits_for_the_training_process_itself_have_no_facets() -> None:
    log = Log()
    log.add_fact("loader", 0, ("train.py", 41), num_workers=0)
    for start in range(100, 900, 100):
        log.add_mark("next", start, start + 80, value=start // 100 - 1)
        log.add_fetch(start, start + 79)
        log.add_steps(start + 90)
    assert facets(study_recording(recording(log), Options())) == (None, None, None)


def test_short_waits_are_not_explained() -> None:
    ready = [[(2, 10), (10, 21)], [(2, 12), (12, 19)]]
    study = run(ready, [(5, 10), (15, 15), (20, 21), (990, 990)])
    assert facets(study)[2] == 1
    assert "later batches" not in page(study)
