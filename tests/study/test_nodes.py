"""Machines of one job, each recorded by itself: joined on one clock, and what is missing said."""

import io
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import gapless
from gapless.errors import RunFolderError
from gapless.model.recording import JobPlace, Node, Recording, Window
from gapless.recorded.facts import facts
from gapless.recorded.nodes.join import join_recordings
from gapless.recorded.nodes.shift import shift_recording
from gapless.report.run.nodes import node_lines
from gapless.report.run.page import print_run
from gapless.store.run.recordings import load
from gapless.study import Options, open_job, study_recording
from tests.store import drawing
from tests.study import writing
from tests.study.recording import MS, Log, recording
from tests.study.writing import Event, annotation, call, kernel, op

UNCACHED = Options(cache=False)
UNIX_NS = 1_795_256_103_000_000_000
OFFSET_NS = -987_654_321_000  # of the second machine's clock: it was started later
DAY_ERROR_NS = 800 * MS  # by which its time of day is wrong


def place(node: int, *, run: str = "job7", nodes: int = 2, restart: int = 0) -> JobPlace:
    return JobPlace(run, "node0:29500", node, nodes, restart)


def log_of_node(number: int, *, links: dict[str, int], late_ms: float = 0, world: int = 2) -> Log:
    """Return the log of a rank with thirty steps of 50 ms."""
    log = Log(rank=number, pid=10, world=world, end=2000, job=place(number), host=f"box{number}")
    for start in range(100, 1600, 50):
        log.add_mark("next", start, start + 5 + late_ms)
        log.add_steps(start + 49)
    log.add_fact("distributed", 0, None, world=world, links=links)
    return log


def node(number: int, *, late_ms: float = 0, world: int = 2, **changes: object) -> Recording:
    """Return what one machine recorded of a job: thirty steps of 50 ms of its rank."""
    log = log_of_node(number, links={"eth0": 10_000 * (2 - number)}, late_ms=late_ms, world=world)
    log.windows.append(
        Window(1, f"rank{number}.json", 400 * MS, 800 * MS, 7, 14, stacks=False, stop_ns=0,
               save_ns=0, discarded=None)
    )  # fmt: skip
    series = {"gpu0.sm": ([0.0, 1000.0], [50.0, 60.0]), "cpu.total": ([0.0], [100.0])}
    return recording(
        log, path=f"run{number}", ended_ms=2000, series=series, host=f"box{number}", **changes
    )


def far_away(run: Recording) -> Recording:
    """Return a recording as a machine with another clock and another time of day makes it."""
    moved = shift_recording(run, -OFFSET_NS)
    unix_ns = run.manifest.started_unix_ns + DAY_ERROR_NS
    return replace(moved, manifest=replace(moved.manifest, started_unix_ns=unix_ns))


def join(*runs: Recording) -> Recording:
    return join_recordings(runs, UNCACHED, lambda _: None)


def changed(run: Recording, **changes: object) -> Recording:
    """Return a recording with something else about its process."""
    processes = tuple(replace(process, **changes) for process in run.processes)
    return replace(run, processes=processes)


def unseen(run: Recording) -> str:
    recorded = study_recording(run, UNCACHED).recorded
    assert recorded is not None
    return "\n".join(f"{item.what}: {item.why}" for item in recorded.unobserved)


def test_clocks_are_aligned_by_common_steps_whatever_the_time_of_day() -> None:
    joined = join(far_away(node(1)), node(0))  # in any order
    first, second = joined.nodes
    assert (first.host, first.ranks, first.clock_source) == ("box0", (0,), "the first")
    assert (second.clock_offset_ns, second.clock_source, second.clock_count) == (
        OFFSET_NS,
        "steps",
        30,
    )
    assert second.clock_error_ns == 50 * MS  # a step: it cannot be off by more
    starts = [process.marks.start.tolist() for process in joined.processes]
    assert starts[0] == starts[1]
    assert joined.manifest.started == 0
    assert joined.manifest.ended == 2000 * MS


def test_the_clock_of_the_recorder_moves_with_its_windows_and_samples() -> None:
    readings = (((1, 2), (3, 4)), ())
    (process,) = node(0).processes
    window = replace(process.windows[0], readings=readings)
    moved = shift_recording(changed(node(0), windows=(window,)), 100)
    assert moved.processes[0].windows[0].readings == (((-99, -98), (-97, -96)), ())
    assert moved.processes[0].windows[0].start == 400 * MS - 100
    assert moved.samples.series["gpu0.sm"][0].tolist() == [-100, 1000 * MS - 100]
    assert moved.processes[0].marks.value.tolist() == process.marks.value.tolist()


def write_window(path: Path, *, offset_us: float, steps: int = 8, rate: float = 0) -> Path:
    """Write a window of 400 ms, a collective in each of its steps, as a file's clock shows it."""
    start, length = 400_000 + offset_us, 400_000 * (1 + rate) / steps
    events: list[Event] = [annotation("gapless:clock", start - 10, start - 9)]
    for number in range(steps):
        at = start + number * length
        events += [
            annotation("gapless:step", at + 1, at + 2),
            annotation(f"ProfilerStep#{number}", at, at + length),
            op("c10d::allreduce_", at + 10, at + 50),
            call(number + 1, at + 20, at + 30),
            kernel(
                "ncclDevKernel_AllReduce", number + 1,
                at + 100, at + 0.8 * length + 30 * (number % 2),
                **{"Collective name": "allreduce", "Group size": 2, "Process Group Name": "0",
                   "Seq": number},
            ),
        ]  # fmt: skip
    return writing.write(
        path,
        [*events, annotation("gapless:clock", start + steps * length, start + steps * length + 1)],
    )


def join_windows(folder: Path, *, steps: int = 8, drift_ns: int = 0) -> Node:
    """Join two nodes by a window of each; the second's clock gains ``drift_ns`` in its 400 ms."""
    runs: list[Recording] = []
    for number, run in enumerate((node(0), node(1))):
        gain_ns = number * drift_ns
        write_window(
            folder / f"rank{number}.json",
            offset_us=777 * (1 + number),
            steps=steps,
            rate=gain_ns / (400 * MS),
        )
        end_ns = 800 * MS + gain_ns
        edges = [(400 * MS - 12_000, 400 * MS - 6_000), (end_ns - 2_000, end_ns + 4_000)]
        window = replace(run.processes[0].windows[0], readings=tuple((edge,) for edge in edges))
        runs.append(replace(changed(run, windows=(window,)), path=str(folder)))
    return join(runs[0], far_away(runs[1])).nodes[1]


def test_collectives_in_windows_of_the_same_steps_are_exact(tmp_path: Path) -> None:
    second = join_windows(tmp_path)
    assert (second.clock_source, second.clock_count) == ("collectives", 8)
    assert second.clock_error_ns is not None
    assert 0 < second.clock_error_ns < 20_000
    assert abs(second.clock_offset_ns - OFFSET_NS) <= second.clock_error_ns


def test_the_error_of_a_clock_that_is_fast_holds_from_start_to_end(tmp_path: Path) -> None:
    second = join_windows(tmp_path, steps=32, drift_ns=80_000)  # 200 ppm
    assert second.clock_error_ns is not None
    drifts_ns = [(at_ms - 400) * 200 for at_ms in (0, 2000)]  # 200 ns a ms
    for drift_ns in drifts_ns:
        assert abs(second.clock_offset_ns - OFFSET_NS - drift_ns) <= second.clock_error_ns
    assert second.clock_error_ns < (drifts_ns[1] - drifts_ns[0]) // 2 + 20_000


def test_without_common_steps_there_is_only_the_time_of_day() -> None:
    idle = changed(far_away(node(1)), marks=Log().to_process().marks)
    second = join(node(0), idle).nodes[1]
    assert (second.clock_source, second.clock_error_ns) == ("wall clock", None)
    assert second.clock_offset_ns == OFFSET_NS - DAY_ERROR_NS


def test_what_belongs_to_a_machine_is_numbered_or_that_of_the_first() -> None:
    joined = join(node(0), node(1))
    assert sorted(joined.samples.series) == ["cpu.total", "gpu0.sm", "gpu1.sm"]
    assert [item.first_gpu for item in joined.nodes] == [0, 1]
    world = facts(joined).world
    assert (world.ranks, world.hosts, world.links) == (2, ("box0", "box1"), {"eth0": 10_000})


def test_a_job_ended_as_the_worst_of_its_nodes() -> None:
    killed = node(1, status="killed")
    killed = replace(killed, manifest=replace(killed.manifest, ended=None, exit_code=None))
    failed = node(0, status="failed", exit_code=1)
    joined = join(failed, changed(killed, end=None))
    assert (joined.manifest.status, joined.manifest.exit_code) == ("killed", 1)
    assert joined.manifest.ended == 2000 * MS
    assert [item.status for item in joined.nodes] == ["failed", "killed"]


def test_a_rank_that_was_started_anew_is_compared_with_those_of_its_start() -> None:
    first, second = node(0), node(1)
    early = replace(
        second.processes[0],
        pid=9,
        start=-5000 * MS,
        end=-3000 * MS,
        marks=replace(
            second.processes[0].marks,
            start=second.processes[0].marks.start - 5000 * MS,
            end=second.processes[0].marks.end - 5000 * MS,
        ),
        windows=(),
    )
    again = [replace(process, job=place(1, restart=1)) for process in second.processes]
    joined = join(first, far_away(replace(second, processes=(early, *again))))
    assert joined.nodes[1].restarts == 1
    assert joined.nodes[1].clock_offset_ns == OFFSET_NS


def test_a_node_that_is_missing_is_said() -> None:
    text = unseen(changed(node(0, world=4), job=place(0, nodes=3)))
    assert "node 1–2 of 3: nothing of rank 1–3 is here" in text
    assert "of 2:" not in unseen(join(node(0), node(1)))


@pytest.mark.parametrize("job", [place(1, run="job8"), None])
def test_runs_of_different_jobs_are_not_joined(job: JobPlace | None) -> None:
    with pytest.raises(RunFolderError, match="different jobs" if job else "nothing shows"):
        join(changed(node(0), job=place(0) if job else None), changed(node(1), job=job))


def test_a_run_of_no_job_is_not_joined_to_one() -> None:
    with pytest.raises(RunFolderError, match="nothing shows that run1 is of the same job as run0"):
        join(node(0), changed(node(1), job=None))


def test_a_rank_is_joined_once_unless_it_was_started_anew() -> None:
    copied = replace(node(0), path="copy")
    with pytest.raises(RunFolderError, match="rank 0 is in run0 and in copy at the same time"):
        join(node(0), node(1), copied)
    unix_ns = copied.manifest.started_unix_ns + 1990 * MS
    later = replace(copied, manifest=replace(copied.manifest, started_unix_ns=unix_ns))
    assert len(join(node(0), node(1), later).nodes) == 3


def test_a_job_without_a_rendezvous_id_is_known_by_its_address() -> None:
    unnamed = [changed(node(number), job=place(number, run="none")) for number in (0, 1)]
    assert len(join(*unnamed).nodes) == 2
    elsewhere = replace(place(1, run="none"), master="node9:29500")
    with pytest.raises(RunFolderError, match="node9:29500"):
        join(unnamed[0], changed(node(1), job=elsewhere))


def test_the_report_shows_nodes_with_their_clocks() -> None:
    study = study_recording(join(node(0), far_away(node(1, late_ms=20))), UNCACHED)
    stream = io.StringIO()
    print_run(study, stream)
    text = " ".join(stream.getvalue().split())
    assert "node 0, box0 · rank 0 · GPU 0 · finished · all times are on its clock" in text
    assert "node 1, box1 · rank 1 · GPU 1 · finished · clock −987.65" in text, text[-2500:-1000]
    assert "by 30 steps: no window of the same steps is there on both" in text
    assert re.search(
        r"hosts box0: steps of [^:]* box1: steps of [\d.]+ ms · waiting for data", text
    )
    assert "rank 1 waits" in text  # steps together, and waits for its data


def test_of_many_nodes_those_that_did_not_finish_are_shown() -> None:
    recorded = study_recording(join(node(0), node(1)), UNCACHED).recorded
    assert recorded is not None
    usual = recorded.nodes[1]
    many = [replace(usual, host=f"h{number}", number=number) for number in range(1, 100)]
    many[70] = replace(many[70], status="killed")
    lines = list(node_lines(replace(recorded, nodes=(recorded.nodes[0], *many))))
    assert len(lines) == 9
    assert "node 71, h71" in lines[1]
    assert lines[-1] == "92 more nodes: finished, clocks known to ± 50.00 ms"


def write_node(folder: Path, number: int, **job: object) -> Path:
    """Write the run folder of one machine."""
    values = {"run": "job7", "master": "node0:1", "node": number, "nodes": 2, "restart": 0} | job
    head = drawing.process(7, rank=number, world=2, hostname=f"box{number}", job=values,
                           unix_ns=UNIX_NS, monotonic_ns=7_005)  # fmt: skip
    logs = {f"rank{number}.log": head + b"".join(drawing.training()[1:])}
    return drawing.write_run(folder, logs, host=f"box{number}")


def test_run_folders_of_a_job_are_opened_as_one(tmp_path: Path) -> None:
    paths = [write_node(tmp_path / f"run{number}", number) for number in (0, 1)]
    study = open_job(paths, UNCACHED)
    assert study.run.ranks == (0, 1)
    assert study.recorded is not None
    assert [item.host for item in study.recorded.nodes] == ["box0", "box1"]
    assert gapless.open(*paths, cache=False).run.ranks == (0, 1)
    (process,) = load(paths[1]).processes
    assert process.unix_offset_ns == UNIX_NS - 7_005
    assert process.job == JobPlace("job7", "node0:1", 1, 2, 0)
