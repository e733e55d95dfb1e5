"""Logs: what was written comes out; of a damaged one, every frame that is whole."""

import random
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Process, StackCount, Unobserved
from gapless.store.logs import framing, packed
from gapless.store.logs.logs import find_damage, open_log, read_processes
from gapless.store.logs.series import read_samples
from tests.store import drawing

COLUMN = st.integers(-(1 << 63), (1 << 63) - 1)
MARK = st.tuples(
    st.integers(0, 65_535), st.integers(0, 65_535), st.integers(0, wire.NOBODY), *[COLUMN] * 4
)
BATCH = st.tuples(*[COLUMN] * len(wire.BATCH_FIELDS))
FRAMES = st.lists(
    st.one_of(
        st.lists(MARK, max_size=4).map(lambda records: (wire.MARKS, records)),
        st.lists(BATCH, max_size=2).map(lambda records: (wire.BATCHES, records)),
        st.integers(1, 3).map(lambda pid: (wire.PROCESS, pid)),
    ),
    max_size=8,
)


def read_log(
    log: bytes, name: str = "rank0.log"
) -> tuple[tuple[Process, ...], tuple[Unobserved, ...]]:
    return read_processes(name, framing.read_frames(log))


def read_single(*frames: bytes, name: str = "rank0.log") -> Process:
    ((process,), _) = read_log(b"".join(frames), name)
    return process


def rows(columns: Mapping[str, Any], fields: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(columns[name].tolist() for name in fields), strict=True))


def bodies(log: bytes) -> list[tuple[int, bytes]]:
    return [(kind, bytes(body)) for kind, body in framing.read_frames(log).frames]


@pytest.mark.parametrize(
    ("dtype", "record", "fields"),
    [
        (packed.MARK, wire.MARK, wire.MARK_FIELDS),
        (packed.BATCH, wire.BATCH, wire.BATCH_FIELDS),
        (packed.MARK_SUM, wire.MARK_SUM, wire.MARK_SUM_FIELDS),
        (packed.BATCH_SUM, wire.BATCH_SUM, wire.BATCH_SUM_FIELDS),
    ],
)
def test_a_column_is_where_the_writer_packs_it(
    dtype: np.dtype[Any], record: struct.Struct, fields: tuple[str, ...]
) -> None:
    assert dtype.itemsize == record.size
    assert dtype.names == fields
    row = np.frombuffer(record.pack(*range(1, len(fields) + 1)), dtype)[0]
    assert list(row) == list(range(1, len(fields) + 1))


@given(FRAMES)
def test_what_is_written_is_read(frames: list[tuple[int, Any]]) -> None:
    log = b""
    expected: dict[int, tuple[list[Any], list[Any]]] = {}
    current = -1
    for kind, value in frames:
        if kind == wire.PROCESS:
            current = value
            log += drawing.process(value)
            expected.setdefault(current, ([], []))
        else:
            log += (drawing.marks if kind == wire.MARKS else drawing.batches)(*value)
            expected.setdefault(current, ([], []))[kind == wire.BATCHES].extend(value)
    processes, unobserved = read_log(log)
    assert unobserved == ()
    assert {
        process.pid: (
            rows(asdict(process.marks), wire.MARK_FIELDS),
            rows(process.batches.columns, wire.BATCH_FIELDS),
        )
        for process in processes
    } == expected  # fmt: skip


def test_all_that_a_process_tells_is_read() -> None:
    process = read_single(*drawing.training())
    assert (process.pid, process.role, process.rank, process.world) == (7, "training", 0, 1)
    assert (process.start, process.end) == (7_000, 30_000)
    assert process.argv == ("train.py", "--epochs", "2")
    assert process.versions == {"python": "3.11", "torch": "2.13"}
    loader, site = process.facts
    assert (loader.noun, loader.id, loader.file, loader.line) == ("loader", 0, "train.py", 10)
    assert loader.values == {"batch_size": 4, "num_workers": 2}
    assert site.noun == "site"
    assert process.unobserved == (Unobserved("schedstat", "no such file", 2),)
    assert process.stacks == (StackCount("training", (("a.py", 1, "f"),), 3),)
    assert process.windows[0].path == "windows/rank0-step1.json"
    assert process.counters == ({"ns": 9, "device": 0, "allocated": 5, "peak": 7.5},)
    assert (process.read, process.written) == ({"a.jpg": 2, "b.jpg": 1}, ("model.pt",))
    assert not process.marks.start.flags.writeable


def test_sums_are_read_and_absent_where_every_record_was_kept() -> None:
    mark_rows = [
        (wire.STEP, 4, 0, 11, 5, 9, 3, 2, 1, -1),
        (wire.NEXT, 0, 1, 11, 5, 9, 1, 1, 1, -1),
    ]
    row = drawing.batch_sum(20, 30, samples=7, detailed_wall=4)
    first_frame = drawing.process(5, start_ns=None, monotonic_ns=None)
    process = read_single(first_frame, drawing.mark_sums(*mark_rows), drawing.batch_sums(row))
    assert process.mark_sums is not None
    assert process.batch_sums is not None
    assert rows(process.mark_sums.columns, wire.MARK_SUM_FIELDS) == mark_rows
    assert rows(process.batch_sums.columns, wire.BATCH_SUM_FIELDS) == [row]
    assert process.start == 5, "the first that is known of it"
    unsummed = read_single(*drawing.training())
    assert (unsummed.mark_sums, unsummed.batch_sums) == (None, None)


def test_what_is_told_again_holds_and_what_is_new_is_added() -> None:
    stack: dict[str, Any] = {"thread": "worker", "stacks": [[2, [["a", 1, "f"]]], [1, []]]}
    process = read_single(
        drawing.process(),
        *[drawing.fact("loader", 0, workers=n) for n in (2, 4)],
        *[drawing.window(1, discarded=why) for why in (None, "too long")],
        *[
            wire.text_frame(wire.UNOBSERVED, {"what": "a", "why": "b", "count": n})
            for n in (1, 9, 4)
        ],
        *[wire.text_frame(wire.STACKS, stack)] * 2,
        *[wire.text_frame(wire.FILES, {"read": {"a": 2}, "written": ["b"]})] * 2,
        wire.text_frame(wire.FILES, {"written": ["t.json"], "kind": "trace"}),
        *[wire.text_frame(wire.END, {"ns": n}) for n in (5, 6)],
    )
    assert [fact.values for fact in process.facts] == [{"workers": 4}]
    assert [window.discarded for window in process.windows] == ["too long"]
    assert process.unobserved == (Unobserved("a", "b", 9),)
    assert [stack.count for stack in process.stacks] == [4, 2]
    assert (process.read, process.written) == ({"a": 4}, ("b", "t.json"))
    assert process.exported == ("t.json",)
    assert process.end == 6


def test_a_successor_in_the_same_slot_is_a_process_of_its_own() -> None:
    first_frames = [drawing.process(5, "worker", worker=1), drawing.batches(drawing.batch(1, 2))]
    next_frames = [drawing.process(6, "worker", worker=1), drawing.batches(drawing.batch(3, 4))]
    workers, _ = read_log(b"".join([*first_frames, *next_frames]), "rank0-worker1.log")
    assert [(worker.pid, worker.worker, len(worker.batches)) for worker in workers] == [
        (5, 1, 1),
        (6, 1, 1),
    ]
    assert [int(worker.batches.columns["start"][0]) for worker in workers] == [1, 3]
    ended_worker, living_worker = read_log(
        b"".join([*first_frames, wire.text_frame(wire.END, {"ns": 9}), *next_frames])
    )[0]
    assert (ended_worker.end, living_worker.end) == (9, None)


def test_a_process_that_introduces_itself_again_is_one() -> None:
    step = drawing.marks(drawing.step(0, 1, 2))
    process = read_single(drawing.process(5), step, drawing.process(5), step)
    assert len(process.marks) == 2


def test_a_number_that_was_given_again_is_another_process() -> None:
    processes, _ = read_log(drawing.process(5) + drawing.process(5, start_ns=99))
    assert [process.start for process in processes] == [5_000, 99]


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("rank3.log", (-1, "training", 3, None)),
        ("rank3-pid77.log", (77, "training", 3, None)),
        ("rank0-worker2.log", (-1, "worker", 0, 2)),
        ("rank0-worker2-3.log", (-1, "worker", 0, 2)),
        ("rank0-worker2-pid5.log", (5, "worker", 0, 2)),
        ("other.log", (-1, "training", None, None)),
    ],
)
def test_what_a_lost_first_frame_told_the_name_tells(name: str, identity: tuple[Any, ...]) -> None:
    frames = drawing.marks(drawing.step(0, 60, 70)) + drawing.batches(drawing.batch(50, 55))
    process = read_single(frames, name=name)
    assert (process.pid, process.role, process.rank, process.worker) == identity
    assert process.start == 50
    assert process.unobserved == (Unobserved(f"who wrote {name}", "its first frame is lost"),)


def test_a_start_that_is_unknown_is_when_the_log_was_begun() -> None:
    assert read_single(drawing.process(start_ns=None)).start == 7_005
    bare_frame = wire.text_frame(wire.PROCESS, {"pid": 5})
    assert read_single(bare_frame).start == 0


def test_two_processes_that_tell_nothing_of_themselves_are_two() -> None:
    bare_frame = wire.text_frame(wire.PROCESS, {"rank": 0})
    processes, _ = read_log(bare_frame + drawing.marks(drawing.step(0, 1, 2)) + bare_frame)
    assert [(process.pid, len(process.marks)) for process in processes] == [(-1, 1), (-1, 0)]


def test_any_cut_keeps_every_frame_before_it() -> None:
    frames = drawing.training()
    log = b"".join(frames)
    ends = np.cumsum([len(frame) for frame in frames])
    for size in range(len(log) + 1):
        framed_log = framing.read_frames(log[:size])
        n_whole = int(np.searchsorted(ends, size, side="right"))
        assert len(framed_log.frames) == n_whole, size
        assert framed_log.gaps == ()
        assert framed_log.tail == size - (ends[n_whole - 1] if n_whole else 0)
        read_processes("rank0.log", framed_log)


def test_any_changed_byte_costs_one_frame_and_no_other() -> None:
    frames = drawing.training()
    log = b"".join(frames)
    known_bodies = [body for _, body in bodies(log)]
    ends = np.cumsum([len(frame) for frame in frames])
    for position in range(len(log)):
        damaged = log[:position] + bytes([log[position] ^ 0xFF]) + log[position + 1 :]
        hit_index = int(np.searchsorted(ends, position, side="right"))
        is_kind_byte = (
            position - (ends[hit_index - 1] if hit_index else 0) == 2
        )  # it is in no sum; the frame stays, unknown
        kept_bodies = (
            known_bodies
            if is_kind_byte
            else known_bodies[:hit_index] + known_bodies[hit_index + 1 :]
        )
        assert [body for _, body in bodies(damaged)] == kept_bodies, position
        read_log(damaged)


def test_frames_behind_half_of_one_are_found_and_the_loss_is_told() -> None:
    first_frame, lost_frame, *other_frames = drawing.training()
    log = framing.read_frames(
        b"rubbish" + first_frame + lost_frame[:-3] + b"".join(other_frames) + lost_frame[:5]
    )
    assert len(log.frames) == 1 + len(other_frames)
    assert log.gaps == (7, len(lost_frame) - 3)
    assert find_damage("a.log", log, has_ended=False) == (
        Unobserved(
            "a part of a.log",
            f"{len(lost_frame) + 4} bytes are no whole frame: a full disk, or a damaged file",
            2,
        ),
    )
    assert [gap.what for gap in find_damage("a.log", log, has_ended=True)] == [
        "a part of a.log",
        "the end of a.log",
    ]
    assert find_damage("a.log", framing.read_frames(first_frame), has_ended=True) == ()


@given(st.binary(max_size=300))
def test_rubbish_is_no_frame(rubbish: bytes) -> None:
    log = framing.read_frames(rubbish.replace(wire.MAGIC, b"xx"))
    assert (log.frames, log.tail) == ((), len(rubbish))


def test_a_log_made_to_be_slow_is_given_up_in_time() -> None:
    body = bytes(4_000_000)
    head = wire.HEADER.pack(wire.MAGIC, wire.MARKS, wire.VERSION, len(body), 1)
    start_s = time.process_time()
    framed_log = framing.read_frames(head * 100_000 + body)
    assert (framed_log.frames, framed_log.gaps) == ((), ())
    assert time.process_time() - start_s < 10  # it would be minutes


def test_strange_frames_are_counted_and_the_rest_is_read() -> None:
    strange_frames = [
        wire.frame(99, b"?"),
        wire.frame(wire.FACT, b"[1]"),
        wire.frame(wire.FACT, b"{"),
        wire.frame(wire.FACT, b"[" * 100_000),
        wire.frame(wire.FACT, b"\xff"),
        wire.text_frame(wire.FACT, {"noun": 5, "id": 1}),
        wire.text_frame(wire.FACT, {"noun": "x", "id": 1 << 70}),
        wire.text_frame(wire.UNOBSERVED, {"what": "x"}),
        wire.text_frame(wire.STACKS, {"stacks": []}),
        wire.text_frame(wire.WINDOW, {"number": 1, "start": True}),
        wire.text_frame(wire.END, {"ns": "now"}),
        wire.frame(wire.MARKS, bytes(wire.MARK.size + 3)),
    ]
    (process,), unobserved = read_log(
        b"".join([drawing.process(), *strange_frames, *drawing.training()[1:]])
    )
    assert unobserved == (
        Unobserved("frames of kind 99 in rank0.log", "unknown to this version of gapless", 1),
        Unobserved("the end of frames in rank0.log", "no whole record", 1),
    )
    counts = {gap.what: gap.count for gap in process.unobserved if gap.why == "not understood"}
    expected = {"fact": 6, "unseen": 1, "stacks": 1, "window": 1, "end": 1}
    assert counts == {f"frames of kind {kind}": n for kind, n in expected.items()}
    assert (len(process.facts), len(process.marks), process.end) == (2, 5, 30_000)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([[[1, 4], [5, 9]], [[20, 23]]], (((1, 4), (5, 9)), ((20, 23),))),
        ([[[1, 4], [5]], [[20, 23]]], ((), ((20, 23),))),
        ([[[1, "4"]], 7], ((), ())),
        (None, ()),
    ],
)
def test_readings_of_a_window_are_pairs_or_nothing(readings: object, expected: object) -> None:
    (window,) = read_single(drawing.process(), drawing.window(1, readings=readings)).windows
    assert window.readings == expected


def test_values_of_the_wrong_type_are_absent() -> None:
    process = read_single(
        drawing.process(
            rank="0", world=1.5, worker=True, argv=["a", 5], versions=[], role=7, start_ns=None
        ),
        wire.text_frame(wire.FACT, {"noun": "x", "id": 1, "file": 5, "line": "9", "values": 3}),
        wire.text_frame(wire.FILES, {"read": [], "written": {"a": 1}}),
        wire.text_frame(wire.FILES, {"read": {"a": None}, "written": [5, None]}),
        wire.text_frame(wire.STACKS, {"thread": "training", "stacks": [5, [1], [2, [7, ["a"]]]]}),
    )
    assert (process.rank, process.world, process.worker, process.role) == (None,) * 3 + (
        "training",
    )
    assert (process.argv, process.versions) == (("a",), {})
    (fact,) = process.facts
    assert (fact.file, fact.line, fact.values) == (None, None, {})
    assert (process.read, process.written) == ({"a": 1}, ())
    assert {stack.frames: stack.count for stack in process.stacks} == {
        (): 2,
        (("?", 0, "?"), ("a", 0, "?")): 2,
    }


def test_set_up_and_what_was_not_kept_are_apart_from_other_stacks() -> None:
    stack: list[object] = [2, [["a.py", 3, "main"]], 40, 0, {}]
    training: dict[str, object] = {"stacks": [stack], "rest": [1, 20, 5]}
    process = read_single(
        drawing.process(),
        wire.text_frame(wire.STACKS, {"thread": "setup", **training}),
        *[wire.text_frame(wire.STACKS, {"thread": "training", **training})] * 2,
        wire.text_frame(wire.STACKS, {"thread": "worker", "stacks": [], "rest": [0, 0, 0]}),
    )
    frames = (("a.py", 3, "main"),)
    assert process.stacks == (StackCount("training", frames, 4, 80),)
    assert process.setup_stacks == (StackCount("setup", frames, 2, 40),)
    assert process.rare_stacks == (
        StackCount("setup", (), 1, 20, 5),
        StackCount("training", (), 2, 40, 10),
    )


def test_a_late_step_is_the_training_s_if_steps_go_on() -> None:
    def report(thread: str, line: int) -> bytes:
        stack: list[object] = [1, [["a.py", line, "f"]], 40, 0, {}, 40]
        return wire.text_frame(wire.STACKS, {"thread": thread, "stacks": [stack]})

    process = read_single(
        drawing.process(),
        *(report(*look) for look in (("training", 3), ("ending", 4), ("training", 3))),
        report("ending", 5),
    )
    assert [(stack.frames[0][1], stack.count) for stack in process.stacks] == [(3, 2), (4, 1)]
    assert [stack.frames[0][1] for stack in process.setup_stacks] == [5]


@pytest.mark.parametrize(("last_step", "is_setup"), [(1, False), (2, True)])
def test_what_was_seen_before_a_long_first_step_ended_is_set_up_if_more_steps_were_seen(
    last_step: int, is_setup: bool
) -> None:
    def report(thread: str, line: int, step: int) -> bytes:
        stack: list[object] = [1, [["a.py", line, "f"]], 40, 0, {}, 0]
        document = {"thread": thread, "step": step, "stacks": [stack], "rest": [1, 2, 3]}
        return wire.text_frame(wire.STACKS, document)

    process = read_single(
        drawing.process(),
        *(report("first", 3, 0), report("first", 4, 0), report("training", 5, last_step)),
    )
    lines = [
        [stack.frames[0][1] for stack in part] for part in (process.setup_stacks, process.stacks)
    ]
    assert lines == ([[3, 4], [5]] if is_setup else [[], [3, 4, 5]])
    assert {stack.thread for stack in process.rare_stacks} == (
        {"setup", "training"} if is_setup else {"training"}
    )


def test_json_of_any_shape_is_no_traceback() -> None:
    dice = random.Random(7)
    values: list[Any] = [None, 5, -1.5, "a", [], {}, [[1, [["f"]]]], {"a": {"b": 1}}, True]
    values += [1 << 80, ["a", None]]
    keys = "pid noun id what why count ns values stacks thread read written number start end argv"
    for _ in range(300):
        frames = [
            wire.text_frame(dice.randrange(14), {key: dice.choice(values) for key in keys.split()})
            for _ in range(4)
        ]
        log = framing.read_frames(b"".join(frames))
        assert len(log.frames) == 4
        read_processes("rank0.log", log)
        read_samples([log])


def test_a_log_of_a_later_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    newer_log = bytearray(b"".join(drawing.training()[:1]))
    newer_log[3] = wire.VERSION + 1
    path = tmp_path / "rank0.log"
    path.write_bytes(newer_log)
    with pytest.raises(RunFolderError, match=r"rank0\.log is of version 2; .* reads up to 1"):
        open_log(path)
    path.write_bytes(newer_log + drawing.training()[1])  # one byte was changed, that is all
    assert open_log(path).gaps == (len(newer_log),)


def test_series_hold_what_was_a_number() -> None:
    log = framing.read_frames(
        drawing.sample(5, a=1, b=2.5)
        + drawing.sample(6, a=float("nan"), b="x", c=True, d=None)
        + wire.text_frame(wire.SAMPLE, {"values": {"a": 9}})
        + wire.frame(wire.SAMPLE, b"?")
        + wire.text_frame(wire.UNOBSERVED, {"what": "gpu", "why": "no NVML", "count": 1}) * 2
        + wire.text_frame(wire.UNOBSERVED, {"what": "gpu"})
        + drawing.sample(7, a=-3)
    )
    run_samples = read_samples([log])
    assert {
        name: (times.tolist(), amounts) for name, (times, amounts) in run_samples.series.items()
    } == {
        "a": ([5, 7], (1.0, -3.0)),
        "b": ([5], (2.5,)),
    }
    assert run_samples.unobserved == (Unobserved("gpu", "no NVML"),)


def test_a_log_of_ten_thousand_epochs_is_read_fast() -> None:
    """100 MB of marks take a second; this is a fifth of it, on a machine that may be busy."""
    mark_frame = drawing.marks(*[drawing.step(n, n, n + 1) for n in range(1_600)])
    log = drawing.process() + mark_frame * 320
    start_s = time.process_time()
    process = read_single(log)
    assert time.process_time() - start_s < 1
    assert len(process.marks) == 512_000
