from msgspec.structs import replace

from gapless.recorded.facts import facts
from gapless.store.run.recordings import load
from gapless.verify.specs import Job
from gapless.verify.trial import measure_job
from tests.traces import recorded_run


def test_a_run_that_we_cut_short_tells_no_jobs_length() -> None:
    recording = load(recorded_run())
    run_facts = facts(recording)
    assert measure_job(recording, run_facts) == Job(60, 2)
    cut_processes = tuple(replace(process, end_kind="trial") for process in recording.processes)
    assert measure_job(replace(recording, processes=cut_processes), run_facts) is None
    checked_run = replace(recording, manifest=replace(recording.manifest, stopped_by="check"))
    assert measure_job(checked_run, run_facts) is None
