"""Logs as processes write them, without processes."""

import json
from pathlib import Path

from gapless import wire

Record = tuple[int, ...]


def process(pid: int = 7, role: object = "training", **changes: object) -> bytes:
    """Return the frame with which a process begins."""
    fields = {
        "pid": pid,
        "ppid": 1,
        "role": role,
        "rank": 0,
        "world": 1,
        "worker": None,
        "loader": None,
        "argv": ["train.py", "--epochs", "2"],
        "start_ns": 1_000 * pid,
        "monotonic_ns": 1_000 * pid + 5,
        "versions": {"python": "3.11", "torch": "2.13", "cuda": None},
    }
    return wire.text_frame(wire.PROCESS, fields | changes)


def marks(*records: Record) -> bytes:
    """Return a frame of marks: (kind, flags, subject, thread, start, end, value)."""
    return wire.frame(wire.MARKS, b"".join(wire.MARK.pack(*record) for record in records))


def batches(*records: Record) -> bytes:
    """Return a frame of batches, each as wire.BATCH_FIELDS."""
    return wire.frame(wire.BATCHES, b"".join(wire.BATCH.pack(*record) for record in records))


def mark_sums(*rows: Record) -> bytes:
    """Return a frame of sums of marks, each as wire.MARK_SUM_FIELDS."""
    return wire.frame(wire.MARK_SUMS, b"".join(wire.MARK_SUM.pack(*row) for row in rows))


def batch_sums(*rows: Record) -> bytes:
    """Return a frame of sums of fetches, each as wire.BATCH_SUM_FIELDS."""
    return wire.frame(wire.BATCH_SUMS, b"".join(wire.BATCH_SUM.pack(*row) for row in rows))


def batch_sum(start: int, end: int, **fields: int) -> Record:
    values = {"loader": 0, "worker": 1, "count": 9, "start": start, "end": end} | fields
    return tuple(values.get(name, -1) for name in wire.BATCH_SUM_FIELDS)


def step(number: int, start: int, end: int, subject: int = 0) -> Record:
    return (wire.STEP, 0, subject, 11, start, end, number)


def batch(start: int, end: int, **fields: int) -> Record:
    values = {"loader": 0, "worker": 0, "samples": 4, "start": start, "end": end} | fields
    return tuple(values.get(name, -1) for name in wire.BATCH_FIELDS)


def fact(noun: str, number: int, **values: object) -> bytes:
    location = {"file": "train.py", "line": 10 + number, "function": "main"}
    return wire.text_frame(wire.FACT, {"noun": noun, "id": number, **location, "values": values})


def window(number: int, **changes: object) -> bytes:
    fields = {"number": number, "path": f"windows/rank0-step{number}.json", "start": 1, "end": 2,
            "first_step": 3, "last_step": 8, "stacks": False,
            "stop_ns": 6, "save_ns": 7, "discarded": None}  # fmt: skip
    return wire.text_frame(wire.WINDOW, fields | changes)


def sample(ns: int, **values: object) -> bytes:
    return wire.text_frame(wire.SAMPLE, {"ns": ns, "values": values})


def training(pid: int = 7) -> list[bytes]:
    """Return the frames of a small training: one of every kind."""
    frames = (wire.STACKS, {"thread": "training", "stacks": [[3, [["a.py", 1, "f"]]]]})
    files = {"read": {"a.jpg": 2, "b.jpg": 1}, "written": ["model.pt"]}
    return [
        process(pid),
        fact("loader", 0, batch_size=4, num_workers=2),
        fact("site", 3),
        marks(step(0, 10_000, 11_000), (wire.NEXT, 0, 0, 11, 11_000, 19_000, 0)),
        marks(step(1, 20_000, 21_000), (wire.COLLECTOR, 0, wire.NOBODY, 11, 5, 6, 2)),
        batches(batch(1, 9, worker=-1, cpu=5, run_queue=1)),
        wire.text_frame(wire.UNOBSERVED, {"what": "schedstat", "why": "no such file", "count": 2}),
        wire.text_frame(*frames),
        window(1),
        wire.text_frame(wire.FILES, files),
        wire.text_frame(wire.COUNTERS, {"ns": 9, "device": 0, "allocated": 5, "peak": 7.5}),
        wire.text_frame(wire.END, {"ns": 30_000, "how": "exit"}),
    ]


def write_run(folder: Path, logs: dict[str, bytes], /, **changes: object) -> Path:
    """Write a run folder."""
    (folder / "logs").mkdir(parents=True)
    document = {
        "version": 1,
        "id": folder.name,
        "command": ["python", "train.py"],
        "folder": "/somewhere",
        "host": "host",
        "gapless": "0.1",
        "started_unix_ns": 1_800_000_000_000_000_000,
        "started": 1_000,
        "ended": 40_000,
        "exit_code": 0,
        "status": "finished",
        "stopped_by": None,
    }
    (folder / "run.json").write_text(json.dumps(document | changes))
    for name, log in logs.items():
        (folder / "logs" / name).write_bytes(log)
    return folder
