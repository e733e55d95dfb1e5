from dataclasses import replace
from pathlib import Path

from gapless.store.recordings import load
from gapless.study.recorded.facts import facts
from gapless.verify.trying import job_of
from gapless.verify.wanted import Job

STORY = Path(__file__).parents[1] / "data/runs/2026-11-21T17-12-53-8a06"


def test_a_run_that_we_cut_short_tells_no_jobs_length() -> None:
    whole = load(STORY)
    found = facts(whole)
    assert job_of(whole, found) == Job(60, 2)
    ours = tuple(replace(one, how="trial") for one in whole.processes)
    assert job_of(replace(whole, processes=ours), found) is None
    checked = replace(whole, manifest=replace(whole.manifest, stopped_by="check"))
    assert job_of(checked, found) is None
