"""Synchronising calls, device memory and files of a recorded run, and what its page says."""

import json
from collections.abc import Mapping
from io import StringIO

import numpy as np
import pytest
from msgspec.structs import replace

from gapless import wire
from gapless.model.footprint import AllocatorUse, FolderUse, Footprint
from gapless.model.recording import Recording, Sums
from gapless.report.documents.document import study_json
from gapless.report.run.page import print_run
from gapless.study import Options, study_recording
from tests.study import recording as by_hand
from tests.study.recording import MS, Log


def footprint(recording: Recording) -> Footprint:
    recorded = study_recording(recording, Options(), lambda _: None).recorded
    assert recorded is not None
    assert recorded.footprint is not None
    return recorded.footprint


def page(recording: Recording) -> str:
    stream = StringIO()
    print_run(study_recording(recording, Options(), lambda _: None), stream)
    return " ".join(stream.getvalue().split())


def synchronising(rank: int = 0) -> Log:
    """Step eleven times; wait twice in each of the ten steps, and once before them."""
    log = Log(rank=rank, pid=10 + rank)
    log.add_fact("site", 0, ("train.py", 40))
    log.add_fact("site", 1, ("train.py", 70))
    log.add_mark("sync", 5, 25, subject=0)
    for number in range(11):
        log.add_steps(100 + 10 * number)
        if number < 10:
            log.add_mark("sync", 101 + 10 * number, 103 + 10 * number, subject=1)
            log.add_mark("sync", 104 + 10 * number, 104.5 + 10 * number, subject=wire.NOBODY)
    log.add_mark("sync", 150, 151, subject=1, thread=2)
    return log


def with_fields(recording: Recording, **fields: object) -> Recording:
    """Return a recording whose first process has other values."""
    first_process, *other_processes = recording.processes
    return replace(recording, processes=(replace(first_process, **fields), *other_processes))  # pyright: ignore[reportArgumentType]


def test_synchronising_calls_are_counted_by_line_and_step() -> None:
    by_step, single_call, unknown = footprint(by_hand.recording(synchronising())).syncs
    assert (by_step.line, by_step.count, by_step.total_ns) == (70, 11, 21 * MS)
    assert (by_step.per_step, by_step.step_ns) == (1, 2 * MS)  # without that of another thread
    assert (single_call.line, single_call.count, single_call.per_step) == (40, 1, 0)
    assert (unknown.file, unknown.count, unknown.step_ns) == (None, 10, MS / 2)


def test_calls_of_all_ranks_are_added_and_divided_by_all_steps() -> None:
    syncs = footprint(by_hand.recording(synchronising(), synchronising(rank=1))).syncs
    assert (syncs[0].line, syncs[0].count, syncs[0].per_step) == (70, 22, 1)


def test_summed_calls_count_like_others() -> None:
    run = by_hand.recording(synchronising())
    row = dict.fromkeys(wire.MARK_SUM_FIELDS, 0)
    row |= {"kind": wire.SYNC, "subject": 1, "thread": by_hand.MAIN, "count": 5, "total": 10 * MS}
    row |= {"start": 160 * MS, "end": 165 * MS, "longest": 2 * MS}
    sums = Sums({name: np.array([value]) for name, value in row.items()})
    sync_use = footprint(with_fields(run, mark_sums=sums)).syncs[0]
    assert (sync_use.line, sync_use.count, sync_use.total_ns) == (70, 16, 31 * MS)
    assert sync_use.per_step == pytest.approx(1.5)


def test_the_page_names_the_lines_that_synchronise() -> None:
    assert (
        "syncs 22 synchronising calls that Python can see took 46.0 ms, 2 a step, 2.50 ms: "
        "train.py:70 main 1 a step, 2.00 ms · train.py:40 main 1 in all, 20.0 ms · "
        "no line of the training's 1 a step, 500 µs"
    ) in page(by_hand.recording(synchronising()))


COUNTERS: tuple[Mapping[str, object], ...] = (
    {"ns": 1, "device": 0, "allocated_peak": 1 << 30, "reserved_peak": 2 << 30, "retries": 0},
    {"ns": 2, "collections": 12},
    {"ns": 3, "device": 0, "allocated_peak": 3 << 30, "retries": 2, "device_frees": 7},
)


def test_the_allocator_is_as_it_was_at_the_last_look() -> None:
    run = with_fields(by_hand.recording(synchronising()), counters=COUNTERS)
    expected = AllocatorUse(0, 0, 3 << 30, 2 << 30, 2, None, None, 7)
    assert footprint(run).allocator == (expected,)
    text = "memory rank 0, GPU 0: allocated at most 3.0 GiB · reserved at most 2.0 GiB · 2 retries"
    assert f"{text} · 7 frees" in page(run)


def test_files_are_told_by_folder() -> None:
    read = {"data/a.bin": 3, "data/b.bin": 1, "other/c.bin": 1}
    run = with_fields(by_hand.recording(synchronising()), read=read, written=("out/model.pt",))
    files = footprint(run).files
    assert files is not None
    assert (files.opened, files.files, files.more) == (5, 3, 0)
    assert files.folders == (FolderUse("data", 4, 2), FolderUse("other", 1, 1))
    text = page(run)
    assert "opened 3 files (5 times), most in data 80 % · other 20 %" in text
    assert "written: out/model.pt" in text


def test_many_folders_are_told_by_the_one_above() -> None:
    read = {f"/data/train/class{label}/{image}.png": 1 for label in range(20) for image in range(5)}
    run = with_fields(by_hand.recording(synchronising()), read={**read, "": 900})
    files = footprint(run).files
    assert files is not None
    assert files.folders == (FolderUse("/data/train", 100, 100),)
    assert "opened at least 100 files (1,000 times), most in /data/train 100 %" in page(run)


def test_files_that_were_only_counted_have_no_folder() -> None:
    text = page(with_fields(by_hand.recording(synchronising()), read={"": 7}))
    assert "opened at least 0 files (7 times)" in text
    assert "most in" not in text


def test_what_was_not_observed_is_not_there() -> None:
    log = Log()
    log.add_steps(10, 20, 30)
    run = by_hand.recording(log)
    assert footprint(run) == Footprint((), (), None)
    text = page(run)
    assert not [title for title in ("syncs ", "memory ", "files ") if title in text]
    document = json.loads(study_json(study_recording(run, Options(), lambda _: None)))
    assert (document["syncs"], document["allocator"], document["files"]) == ([], [], None)


def test_json_holds_what_the_page_shortens() -> None:
    run = with_fields(by_hand.recording(synchronising()), counters=COUNTERS, written=("a", "b"))
    document = json.loads(study_json(study_recording(run, Options(), lambda _: None)))
    assert [sync_use["count"] for sync_use in document["syncs"]] == [11, 1, 10]
    assert document["allocator"][0]["retries"] == 2
    assert document["files"]["written"] == ["a", "b"]
    assert document["files"]["opened"] is None
    assert document["adopted"] == []
