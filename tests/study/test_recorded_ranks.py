"""Windows of several ranks of one run: waiting in collectives is charged to who came last."""

import io
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from gapless.model.recording import Recording, Window
from gapless.model.study import Study
from gapless.report.run.page import print_run
from gapless.report.run.ranks import rank_lines
from gapless.study import Options, study_recording
from tests.study.recording import MS, Log, recording

DATA = Path(__file__).parents[1] / "data"
UNCACHED = Options(cache=False)


def window(rank: int, first_step: int = 10, *, start: int = 400) -> Window:
    return Window(
        number=1,
        path=f"two_ranks.rank{rank}.json.gz",
        start=start * MS,
        end=(start + 200) * MS,
        first_step=first_step,
        last_step=first_step + 5,
        stacks=False,
        stop_ns=MS,
        save_ns=MS,
        discarded=None,
    )


def two_ranks(
    *, waiting: tuple[int, int] = (1, 30), first_steps: tuple[int, int] = (10, 10)
) -> Recording:
    logs = [Log(rank=rank, pid=10 + rank, world=2, end=2000) for rank in (0, 1)]
    for rank, log in enumerate(logs):
        for start in range(100, 1900, 50):
            log.add_mark("next", start, start + waiting[rank], value=(start - 100) // 50)
            log.add_steps(start + 49)
        log.windows.append(window(rank, first_steps[rank]))
    return recording(*logs, path=str(DATA), ended_ms=2000)


def page(study: Study) -> str:
    stream = io.StringIO()
    print_run(study, stream)
    return " ".join(stream.getvalue().split())


@cache
def matched_study() -> Study:
    return study_recording(two_ranks(), UNCACHED)


def test_windows_of_the_same_steps_tell_for_whom_the_others_waited() -> None:
    study = matched_study()
    assert study.recorded is not None
    assert study.recorded.account is not None
    leaves = study.recorded.account.account.leaves
    assert leaves["comm.straggler_wait"] > 0
    assert "comm.wait_estimated" not in leaves
    assert study.stragglers[0].rank == 1  # as the training was written
    assert "the others waited for rank 1 in collectives:" in page(study)


def lines(waiting: tuple[int, int]) -> str:
    """Return what is said of ranks whose light marks are these, with the windows of the fixture."""
    run = two_ranks(waiting=waiting)
    without_windows = replace(
        run, processes=tuple(replace(process, windows=()) for process in run.processes)
    )
    recorded = study_recording(without_windows, UNCACHED).recorded
    assert recorded is not None
    return " ".join(rank_lines(matched_study(), recorded))


def test_what_the_late_rank_does_more_than_the_others_is_said() -> None:
    text = lines(waiting=(1, 30))
    assert "outside the windows it spends 29.0 ms more a step waiting for data" in text
    assert "what delays it lies within its steps" in lines(waiting=(5, 5))


def test_windows_of_other_steps_are_not_matched_and_that_is_said() -> None:
    study = study_recording(two_ranks(first_steps=(10, 40)), UNCACHED)
    assert study.stragglers == ()
    assert study.recorded is not None
    assert any("steps 10 to 15: no window of rank 1" in note for note in study.recorded.notes)
    text = page(study)
    assert "rank 1 waits" in text  # by the light marks, as before
    assert "in collectives" not in text


def test_a_rank_that_was_killed_before_its_window_leaves_the_other_alone() -> None:
    run = two_ranks()
    first_rank, second_rank = run.processes
    killed = replace(second_rank, windows=(), end=None)
    study = study_recording(replace(run, processes=(first_rank, killed)), UNCACHED)
    assert study.recorded is not None
    assert study.recorded.account is not None
    assert study.recorded.account.account.leaves["comm.wait_estimated"] > 0
    assert study.stragglers == ()


def test_one_rank_of_a_run_still_knows_for_whom_it_waited() -> None:
    study = study_recording(two_ranks(), replace(UNCACHED, rank="0"))
    assert {row.row.rank for row in study.account.rows} == {0}
    assert study.stragglers[0].rank == 1
