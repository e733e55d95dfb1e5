from pathlib import Path

from msgspec.structs import replace

from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.verify.specs import Job
from gapless.verify.trial import measure_job

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"


def test_a_run_that_we_cut_short_tells_no_jobs_length() -> None:
    recorded_run = load(STORY)
    run_facts = facts(recorded_run)
    assert measure_job(recorded_run, run_facts) == Job(60, 2)
    cut_processes = tuple(replace(process, end_kind="trial") for process in recorded_run.processes)
    assert measure_job(replace(recorded_run, processes=cut_processes), run_facts) is None
    checked_run = replace(recorded_run, manifest=replace(recorded_run.manifest, stopped_by="check"))
    assert measure_job(checked_run, run_facts) is None
