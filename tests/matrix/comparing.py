"""What two runs of a row left, what was recorded of the second, and every difference."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gapless import wire
from tests.matrix.acts import EXITS, ON_A_TERMINAL
from tests.matrix.rows import Row

# How what we print begins: on a line of its own.
_REPORT_START = re.compile(rb"(?:\r?\x1b\[K|\r)*(?:\r?\n)?gapless(?:: | \xc2\xb7 )")
_PROGRESS = re.compile(rb"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)")


@dataclass(frozen=True)
class RowOutcome:
    """All that is left of a command."""

    code: int
    out: bytes
    err: bytes
    files: Mapping[str, str]  # name: what it holds, or the beginning of its digest
    temporary: tuple[str, ...]  # files
    surviving: tuple[str, ...]  # processes that go on


@dataclass(frozen=True)
class RecordedCounts:
    """What was recorded."""

    steps: int = 0
    batches: int = 0
    windows: int = 0
    cut: tuple[str, ...] = ()  # logs of which the last frame is not whole
    unobserved: Mapping[str, str] = field(default_factory=dict[str, str])


def find_differences(row: Row, plain: RowOutcome, recorded: RowOutcome) -> list[str]:
    """Return all in which two runs differ, but for our report at the end of what was printed."""
    differing: list[str] = []
    expected = EXITS.get(row.act, plain.code)
    if recorded.code != expected:
        differing.append(f"exit code {recorded.code}, not {expected}")
    on_a_terminal = row.act in ON_A_TERMINAL
    differing += _compare_output("stdout", plain.out, recorded.out, report=on_a_terminal)
    differing += _compare_output("stderr", plain.err, recorded.err, report=not on_a_terminal)
    for name in sorted(plain.files.keys() | recorded.files.keys()):
        before, after = plain.files.get(name), recorded.files.get(name)
        if before != after:
            differing.append(f"{name} holds {after!r}, not {before!r}")
    if recorded.temporary != plain.temporary:
        differing.append(f"temporary files {recorded.temporary}, not {plain.temporary}")
    if recorded.surviving != plain.surviving:
        differing.append(f"processes that go on: {recorded.surviving}, not {plain.surviving}")
    return differing


def _compare_output(stream: str, plain: bytes, recorded: bytes, *, report: bool) -> list[str]:
    """Compare what was printed; after it may come a report, which begins as ours do."""
    if not recorded.startswith(plain):
        return [f"{stream}: {recorded.decode()!r}\nnot: {plain.decode()!r}"]
    after = recorded.removeprefix(plain)
    if after and not (report and _REPORT_START.match(_PROGRESS.sub(b"", after))):
        return [f"{stream} goes on: {after.decode()!r}"]
    return []


def find_missing(row: Row, counts: RecordedCounts) -> list[str]:
    """Return what should have been recorded and was not, or too often."""
    faults: list[str] = []
    pairs = (("steps", row.steps, counts.steps), ("batches", row.batches, counts.batches))
    for kind, expected, count in pairs:
        if count < expected or (count > expected and not row.cut):
            faults.append(f"{count} {kind} were recorded, not {expected}")
    if counts.windows < row.windows:
        faults.append(f"{counts.windows} windows were recorded, not {row.windows}")
    if counts.cut and not row.cut:
        faults.append(f"logs that are cut: {counts.cut}")
    if row.why and row.why not in counts.unobserved.get("training", ""):
        faults.append(f"why nothing was recorded: {counts.unobserved!r}, not {row.why!r}")
    return faults


def read_counts(*folders: Path) -> RecordedCounts:
    """Read all logs below some folders."""
    counts: Counter[str] = Counter()
    cut: list[str] = []
    unobserved: dict[str, str] = {}
    logs = {path.name: path for folder in folders for path in folder.rglob("*.log")}
    for name, path in sorted(logs.items()):
        data = path.read_bytes()
        frames, length = wire.frames(data)
        cut += [name] if length < len(data) else []
        for frame in frames:
            counts += _count_frame(frame)
            if frame.kind == wire.UNOBSERVED:
                unobserved[frame.text()["what"]] = frame.text()["why"]
    return RecordedCounts(
        counts["steps"], counts["batches"], counts["windows"], tuple(cut), unobserved
    )


def _count_frame(frame: wire.Frame) -> Counter[str]:
    if frame.kind == wire.WINDOW:
        return Counter(windows=frame.text()["path"] is not None)
    if frame.kind != wire.MARKS:
        return Counter()
    marks = [mark[:2] for mark in wire.MARK.iter_unpack(frame.body)]
    batches = [kind for kind, flags in marks if not flags & (wire.EXHAUSTED | wire.RAISED)]
    return Counter(
        steps=sum(kind == wire.STEP for kind, _ in marks), batches=batches.count(wire.NEXT)
    )
