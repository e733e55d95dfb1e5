"""Opening: files, ranks, the cache, what cannot be read, and processes that end."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

import gapless
from gapless.capture import memo
from gapless.capture.ranks import ranks, tasks
from gapless.capture.ranks.codec import decode, encode
from gapless.capture.ranks.ranks import ask_processes
from gapless.capture.ranks.tasks import Answer, Ask, Task
from gapless.capture.ranks.worker import answer, serve
from gapless.errors import NotATraceError, NotFoundError, UsageError
from gapless.formats.processes import receive_frame, send_frame
from gapless.model.options import Options, parse_selection
from gapless.study.opening import open_study
from tests.study import writing
from tests.study.writing import Event, annotation, call, kernel, op
from tests.traces import TRACES
from tests.waiting import PATIENCE_S, hold_pipes, wait_until


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GAPLESS_CACHE", str(folder))
    return folder


def write_ranks(tmp_path: Path, late: int = 0) -> list[Path]:
    """Write two ranks whose collective begins when rank 1 comes, ``late`` µs after rank 0."""
    paths: list[Path] = []
    for rank in (0, 1):
        begin = 100 + (late if rank == 1 else 0)
        events: list[Event] = []
        for number in range(8):
            start = number * 1000
            events += [
                annotation(f"ProfilerStep#{number}", start, start + 1000),
                op("c10d::allreduce_", start + 10, start + 50),
                call(number + 1, start + 20, start + 30),
                kernel(
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                    number + 1,
                    start + begin,
                    start + 600,
                    **{
                        "Collective name": "allreduce",
                        "dtype": "Float",
                        "In msg nelems": 1000,
                        "Out msg nelems": 1000,
                        "Group size": 2,
                        "Process Group Name": "0",
                        "Seq": number,
                    },
                ),
            ]
        info = {"backend": "nccl", "rank": rank, "world_size": 2}
        path = tmp_path / f"rank{rank}.json"
        paths.append(writing.write(path, events, distributedInfo=info))
    return paths


def test_ranks_are_matched_and_the_straggler_is_named(tmp_path: Path) -> None:
    study = gapless.open(*write_ranks(tmp_path, late=200))
    assert study.run.ranks == (0, 1)
    assert study.run.world == 2
    assert study.account.leaves["comm.straggler_wait"] == 6 * 200_000
    assert [(straggler.rank, straggler.ns, straggler.waits) for straggler in study.stragglers] == [
        (1, 6 * 200_000, 6)
    ]
    (row,) = study.tables.collectives
    assert (row.name, row.calls, row.bytes, row.group_size) == ("allreduce", 12, 4000, 2)
    assert row.device_ns == 6 * (500 + 300) * 1000
    assert row.exposed_ns + row.hidden_ns == row.device_ns
    assert row.bus_bytes_per_s == pytest.approx(4000 * 12 / (row.device_ns / 1e9))
    assert study.steps is not None
    assert study.steps.count == 6


def test_a_rank_that_cannot_be_read_is_reported_and_the_rest_stands(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path)
    bad = tmp_path / "rank2.json"
    bad.write_text("no trace")
    study = gapless.open(*paths, bad)
    assert study.run.ranks == (0, 1)
    (note,) = [note for note in study.health.notes if "rank2.json" in note]
    assert note.startswith(f"left out: {bad}: no JSON")


def test_a_rank_that_must_not_be_read_is_left_out_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny_reading(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    paths = write_ranks(tmp_path)
    # What is read for the key cannot be read: neither is the key of all of them there to look up.
    monkeypatch.setattr(Path, "read_bytes", deny_reading)
    assert gapless.open(*paths).run.ranks == (0, 1)  # other processes may read them
    with pytest.raises(NotFoundError, match="Permission denied"):
        gapless.open(paths[0])


def test_ranks_that_can_all_not_be_read_are_an_error(tmp_path: Path) -> None:
    for name in ("rank0.json", "rank1.json"):
        (tmp_path / name).write_text("no trace")
    with pytest.raises(NotATraceError, match="none of 2 files can be read"):
        gapless.open(tmp_path / "rank0.json", tmp_path / "rank1.json")


def test_one_rank_can_be_chosen_and_is_matched_with_all(tmp_path: Path) -> None:
    study = gapless.open(*write_ranks(tmp_path, late=200), rank=0)
    assert study.run.ranks == (0,)
    assert study.account.leaves["comm.straggler_wait"] == 6 * 200_000
    with pytest.raises(NotFoundError, match="there are 0, 1"):
        gapless.open(*write_ranks(tmp_path), rank="7-9")
    with pytest.raises(NotFoundError, match="no file names its rank"):
        gapless.open(writing.write(tmp_path / "t.json", writing.training()), rank=0)


def test_several_captures_of_a_rank_are_matched_each_with_its_own(tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    study = gapless.open(*write_ranks(tmp_path, late=200), *write_ranks(later, late=100))
    assert study.account.leaves["comm.straggler_wait"] == 6 * 300_000
    assert study.run.ranks == (0, 1)


def test_files_without_a_rank_stand_alone(tmp_path: Path) -> None:
    paths = [writing.write(tmp_path / f"{n}.json", writing.training()) for n in "ab"]
    study = gapless.open(*paths)
    assert study.run.ranks == ()
    assert len(study.account.rows) == 12


def test_steps_that_no_rank_has_are_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(gapless.GaplessError, match="steps 0 to 7"):
        gapless.open(*write_ranks(tmp_path), steps="90")


def test_a_study_is_kept_and_read_again_without_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    fresh_study = gapless.open(path)
    monkeypatch.setattr(tasks, "read_trace", None)  # calling it would fail
    monkeypatch.setattr(tasks.cache, "load", None)
    assert gapless.open(path) == fresh_study
    path.write_text(path.read_text() + " ")
    with pytest.raises(TypeError):  # another content: the cache has nothing of it
        gapless.open(path)


def test_what_is_asked_and_the_code_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        memo.blob_name(["a"], Options()),
        memo.blob_name(["b"], Options()),
        memo.blob_name(["a"], Options(by_shape=True)),
    }
    monkeypatch.setattr(memo, "_code", lambda: b"other code")
    assert len({*names, memo.blob_name(["a"], Options())}) == 4


def test_a_damaged_study_in_the_cache_is_made_again(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = gapless.open(path)
    key = tasks.cache.content_key(path)
    name = memo.blob_name([str(path)], Options())
    tasks.cache.save_blob(key, name, b"\x93")
    assert memo.recall(key, name) is None
    assert gapless.open(path) == study


def test_a_trace_in_the_cache_is_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    study = gapless.open(path)
    monkeypatch.setattr(tasks, "read_trace", None)
    assert gapless.open(path, by_shape=True).account == study.account


def test_without_the_cache_nothing_is_kept(tmp_path: Path, own_cache: Path) -> None:
    uncached = gapless.open(*write_ranks(tmp_path), cache=False)
    assert not own_cache.exists()
    assert gapless.open(*write_ranks(tmp_path)) == uncached
    assert own_cache.exists()


def test_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = writing.write(tmp_path / "trace.json", writing.training())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    study = gapless.open("-", cache=False)
    assert study.run.paths == ("-",)
    assert study.account == gapless.open(path, cache=False).account


def test_progress_is_told_file_by_file(tmp_path: Path) -> None:
    words: list[str] = []
    open_study(write_ranks(tmp_path), Options(cache=False), words.append)
    assert words == [
        "looking for traces",
        "reading: 1 of 2 files",
        "reading: 2 of 2 files",
        "joining: 1 of 1 groups",
        "accounting: 1 of 2 files",
        "accounting: 2 of 2 files",
        "looking for causes",
    ]


def test_one_rank_alone_estimates_its_waiting(tmp_path: Path) -> None:
    study = gapless.open(write_ranks(tmp_path)[0])
    assert study.stragglers == ()
    assert [row.calls for row in study.tables.collectives] == [6]
    assert any("one rank of 2" in note for note in study.health.notes)


def test_a_worker_serves_phases_until_its_pipe_ends(tmp_path: Path) -> None:
    path = str(write_ranks(tmp_path)[0])
    tasks_, answers = io.BytesIO(), io.BytesIO()
    for task in (Task(path), Task(path, options=Options())):
        send_frame(tasks_, encode(task))
    serve(io.BytesIO(tasks_.getvalue()), answers)
    replies = io.BytesIO(answers.getvalue())
    head, summary_answer = (decode(receive_frame(replies) or b"", Answer) for _ in range(2))
    assert head.head is not None
    assert (head.head.rank, head.head.groups) == (0, ((("0", None), 8),))
    assert summary_answer.summary is not None
    assert len(summary_answer.summary.account.rows) == 6


def test_a_worker_answers_a_mistake_with_its_sentence(tmp_path: Path) -> None:
    data, _ = answer(encode(Task(str(tmp_path / "gone.json"))))
    assert "gone.json" in (decode(data, Answer).refused or "")


def test_frames_survive_a_pipe_and_a_cut_one_is_none() -> None:
    pipe = io.BytesIO()
    send_frame(pipe, b"abc")
    frame = pipe.getvalue()
    assert receive_frame(io.BytesIO(frame)) == b"abc"
    assert receive_frame(io.BytesIO(frame[:-1])) is None
    assert receive_frame(io.BytesIO(b"")) is None


def test_only_values_and_arrays_travel() -> None:
    with pytest.raises(NotImplementedError):
        encode(object())


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.json"
    os.mkfifo(fifo)  # reading it blocks until the process is killed
    good = writing.write(tmp_path / "good.json", writing.training())
    with ask_processes(1, {}) as ask:
        killer = threading.Thread(target=_kill_reader_of, args=(fifo,))
        killer.start()
        killed_answer, good_answer = ask([Task(str(fifo), "key"), Task(str(good))])
        killer.join()
    assert "signal 9" in (killed_answer.refused or "")
    assert good_answer.head is not None
    assert readers() == []


def test_a_process_that_is_gone_before_its_task_is_replaced(tmp_path: Path) -> None:
    good = Task(str(writing.write(tmp_path / "good.json", writing.training())))
    with ask_processes(1, {}) as ask:
        (child,) = readers()
        child.kill()
        wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE)
        lost_answer, good_answer = ask([good, good])
    assert "signal 9" in (lost_answer.refused or "")
    assert good_answer.head is not None


def test_an_interrupt_ends_the_processes_without_starting_others(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.json"
    os.mkfifo(fifo)
    answers: list[Iterator[Answer]] = []
    with pytest.raises(KeyboardInterrupt), ask_processes(1, {}) as ask:  # noqa: PT012 - what is tested
        answers.append(ask([Task(str(fifo), "key")]))
        time.sleep(0.5)
        raise KeyboardInterrupt
    assert "signal 9" in (next(answers[0]).refused or "")
    assert readers() == []


def test_a_group_whose_join_is_lost_is_reported_and_the_rest_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_join(join: tasks.Join, needs: Sequence[bytes]) -> list[bytes]:
        raise NotATraceError(f"lost {join.group} of {len(needs)}")

    monkeypatch.setattr(tasks, "_join_group", lose_join)
    monkeypatch.setattr(ranks, "ask_processes", ask_here)
    study = gapless.open(*write_ranks(tmp_path, late=200))
    assert "comm.straggler_wait" not in study.account.leaves
    (note,) = [note for note in study.health.notes if "process group" in note]
    assert note.startswith("left out: process group 0 of None: lost")


@contextlib.contextmanager
def ask_here(*_: object) -> Generator[Ask]:
    """Answer tasks in this process."""
    blobs: dict[str, bytes] = {}

    def ask_task(task: Task) -> Answer:
        data, new_blobs = answer(encode(task), [blobs[name] for name in task.needs])
        blobs.update(zip(task.keeps, new_blobs, strict=True))
        return decode(data, Answer)

    yield lambda all_tasks: map(ask_task, all_tasks)


def readers() -> list[psutil.Process]:
    """Return the processes of a crew; this process may have other children: loaders' workers."""
    processes = list[psutil.Process]()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("gapless.capture.ranks.worker" in word for word in child.cmdline()):
                processes.append(child)
    return processes


def _kill_reader_of(fifo: Path) -> None:
    with hold_pipes(fifo):
        readers()[0].kill()


def test_a_process_that_ends_over_a_task_says_how_to_see_why(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    with ask_processes(1, {}) as ask:
        (lost_answer,) = ask([Task("path", options="nonsense")])  # type: ignore[arg-type]
    assert "GAPLESS_DEBUG=1" in (lost_answer.refused or "")


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    for number in (0, 1):
        os.mkfifo(tmp_path / f"rank{number}.json")
    script = (
        "import sys; from gapless.capture.ranks.ranks import ask_processes\n"
        "from gapless.capture.ranks.tasks import Task\n"
        "with ask_processes(2, {}) as ask:\n"
        "    print('started', flush=True)\n"
        f"    list(ask([Task({str(tmp_path / 'rank0.json')!r}, 'a'),"
        f" Task({str(tmp_path / 'rank1.json')!r}, 'b')]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    with hold_pipes(*(tmp_path / f"rank{number}.json" for number in (0, 1))):
        children = psutil.Process(process.pid).children()
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    process.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("5", 5, 6), ("3-7", 7, 8), ("3-", 10**9, 2), ("0, 8-9", 9, 5)],
)
def test_selections_name_numbers(text: str, inside: int, outside: int) -> None:
    assert inside in parse_selection(text, "steps")
    assert outside not in parse_selection(text, "steps")


@pytest.mark.parametrize("text", ["", "a", "-3", "3--4", "3-x", "²", "7-3", "1,,2", "9" * 5000])
def test_other_selections_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="steps"):
        Options(steps=text)


def test_no_pieces_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match="ask for one"):
        Options(leaf="idle", pieces=0)


def test_an_unknown_leaf_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"idle\.sync"):
        Options(leaf="idle.nothing")


def test_the_recorded_ranks_are_opened_together() -> None:
    study = gapless.open(*(TRACES[f"two_ranks.rank{rank}"] for rank in (0, 1)), cache=False)
    assert study.run.ranks == (0, 1)
    assert study.account.leaves["comm.straggler_wait"] > 0
    assert study.stragglers[0].rank == 1  # the recording makes it late on purpose
    assert sum(study.account.leaves.values()) == study.account.wall_ns


def test_a_trace_in_which_nothing_takes_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    with pytest.raises(NotATraceError, match="nothing in it takes time"):
        open_study([tmp_path / "empty.json"], Options(cache=False))
