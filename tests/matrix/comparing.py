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
_OURS = re.compile(rb"(?:\r?\x1b\[K|\r)*(?:\r?\n)?gapless(?:: | \xc2\xb7 )")
_PROGRESS = re.compile(rb"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)")


@dataclass(frozen=True)
class Outcome:
    """All that is left of a command."""

    code: int
    out: bytes
    err: bytes
    files: Mapping[str, str]  # name: what it holds, or the beginning of its digest
    temporary: tuple[str, ...]  # files
    left: tuple[str, ...]  # processes that go on


@dataclass(frozen=True)
class Seen:
    """What was recorded."""

    steps: int = 0
    batches: int = 0
    windows: int = 0
    cut: tuple[str, ...] = ()  # logs of which the last frame is not whole
    unseen: Mapping[str, str] = field(default_factory=dict[str, str])


def differences(row: Row, plain: Outcome, recorded: Outcome) -> list[str]:
    """Give all in which two runs differ, but for our report at the end of what was printed."""
    found: list[str] = []
    expected = EXITS.get(row.act, plain.code)
    if recorded.code != expected:
        found.append(f"exit code {recorded.code}, not {expected}")
    on_a_terminal = row.act in ON_A_TERMINAL
    found += _printed("stdout", plain.out, recorded.out, report=on_a_terminal)
    found += _printed("stderr", plain.err, recorded.err, report=not on_a_terminal)
    for name in sorted(plain.files.keys() | recorded.files.keys()):
        before, after = plain.files.get(name), recorded.files.get(name)
        if before != after:
            found.append(f"{name} holds {after!r}, not {before!r}")
    if recorded.temporary != plain.temporary:
        found.append(f"temporary files {recorded.temporary}, not {plain.temporary}")
    if recorded.left != plain.left:
        found.append(f"processes that go on: {recorded.left}, not {plain.left}")
    return found


def _printed(what: str, plain: bytes, recorded: bytes, *, report: bool) -> list[str]:
    """Compare what was printed; after it may come a report, which begins as ours do."""
    if not recorded.startswith(plain):
        return [f"{what}: {recorded.decode()!r}\nnot: {plain.decode()!r}"]
    after = recorded.removeprefix(plain)
    if after and not (report and _OURS.match(_PROGRESS.sub(b"", after))):
        return [f"{what} goes on: {after.decode()!r}"]
    return []


def lacks(row: Row, seen: Seen) -> list[str]:
    """Give what should have been recorded and was not, or too often."""
    found: list[str] = []
    pairs = (("steps", row.steps, seen.steps), ("batches", row.batches, seen.batches))
    for what, wanted, counted in pairs:
        if counted < wanted or (counted > wanted and not row.cut):
            found.append(f"{counted} {what} were recorded, not {wanted}")
    if seen.windows < row.windows:
        found.append(f"{seen.windows} windows were recorded, not {row.windows}")
    if seen.cut and not row.cut:
        found.append(f"logs that are cut: {seen.cut}")
    if row.why and row.why not in seen.unseen.get("training", ""):
        found.append(f"why nothing was recorded: {seen.unseen!r}, not {row.why!r}")
    return found


def recorded_in(*folders: Path) -> Seen:
    """Read all logs below some folders."""
    counts: Counter[str] = Counter()
    cut: list[str] = []
    unseen: dict[str, str] = {}
    logs = {path.name: path for folder in folders for path in folder.rglob("*.log")}
    for name, path in sorted(logs.items()):
        data = path.read_bytes()
        frames, length = wire.frames(data)
        cut += [name] if length < len(data) else []
        for frame in frames:
            counts += _counted(frame)
            if frame.kind == wire.UNSEEN:
                unseen[frame.text()["what"]] = frame.text()["why"]
    return Seen(counts["steps"], counts["batches"], counts["windows"], tuple(cut), unseen)


def _counted(frame: wire.Frame) -> Counter[str]:
    if frame.kind == wire.WINDOW:
        return Counter(windows=frame.text()["path"] is not None)
    if frame.kind != wire.MARKS:
        return Counter()
    marks = [mark[:2] for mark in wire.MARK.iter_unpack(frame.body)]
    handed = [kind for kind, flags in marks if not flags & (wire.EXHAUSTED | wire.RAISED)]
    return Counter(
        steps=sum(kind == wire.STEP for kind, _ in marks), batches=handed.count(wire.NEXT)
    )
