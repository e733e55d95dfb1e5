"""The probe, run in the user's interpreter: ``probe/machine.py`` measures, this reads its lines.

Nothing here raises: an interpreter that is not there, a probe that dies or hangs, is an answer.
"""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from gapless.model.machine import Constant, Constants, Place

PROBE: Final = Path(__file__).resolve().parents[1] / "probe" / "machine.py"
FORM: Final = 1  # of the probe's lines
_IDENTIFY_S: Final = 60.0  # a cold network disk may take so long to give an interpreter
_USUAL_S: Final = {False: 12.0, True: 25.0}  # with a GPU or without, as the probe itself has it
_PATIENCE: Final = 2.0  # times the time that the probe has, and
_MORE_S: Final = 30.0  # for importing torch from a cold disk
_END_S: Final = 5.0  # between the last line and the end
_LOOK_S: Final = 0.01
_BUSY: Final = 0.25  # processors that others took meanwhile
_BUSY_GPU: Final = 5  # per cent of the time
_SAID: Final = 200  # characters of its last words
_NOT_OURS: Final = ("GAPLESS_SPOOL", "GAPLESS_OPTIONS", "PYTHONOPTIMIZE")  # docstrings are wanted

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What the probe is to measure."""

    device: int | None = None  # number of the GPU as torch counts; None: no GPU
    path: str | None = None  # of the training's data
    files: tuple[str, ...] = ()  # of the training's data, which may be dropped from memory
    ranks: int = 1  # processes of the training on this machine
    parts: tuple[str, ...] = ()  # empty: all
    seconds: float | None = None  # for all; None: what is usual
    scale: float = 1.0  # of each measurement's time
    largest: int | None = None  # bytes of a buffer
    environment: Mapping[str, str] | None = None  # None: ours

    def options(self) -> list[str]:
        """Give them as the probe's command line."""
        single = {
            "--device": self.device,
            "--path": self.path,
            "--seconds": self.seconds,
            "--largest": self.largest,
        }
        given = [f"{name}={value}" for name, value in single.items() if value is not None]
        given += [f"--file={file}" for file in self.files]
        given += [f"--part={part}" for part in self.parts]
        return [*given, f"--ranks={self.ranks}", f"--scale={self.scale}"]


@dataclass
class _Heard:
    """What the probe has said so far."""

    place: Place | None = None
    values: list[Constant] = field(default_factory=list[Constant])
    methods: dict[str, str] = field(default_factory=dict[str, str])
    parts: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    foreign: dict[str, float] = field(default_factory=dict[str, float])  # processors, by part
    begun: str | None = None  # a part that has not ended
    ended: bool = False
    whole: bool = True


def place(python: str, asked: Asked) -> Place | None:
    """Say where constants would hold, without torch; ``None`` if the interpreter does not tell."""
    heard = _Heard()
    _run([python, str(PROBE), "--identify", *asked.options()], asked, _IDENTIFY_S, heard, _silent)
    return heard.place


def measure(python: str, asked: Asked, say: Say) -> Constants:
    """Run the probe in an interpreter; what it could not measure is absent, with the reason.

    ``say`` is told what is being measured.
    """
    began, now = time.monotonic(), time.time()
    heard = _Heard()
    seconds = asked.seconds or _USUAL_S[asked.device is not None]
    command = [python, str(PROBE), "--json", *asked.options()]
    why = _run(command, asked, _PATIENCE * seconds + _MORE_S, heard, say)
    if why is not None and heard.begun is not None:
        why = f"{why}, while it measured: {heard.begun}"
    others = tuple(_busy(heard))
    return Constants(
        place=heard.place,
        values=tuple(heard.values),
        parts=tuple(dict.fromkeys(heard.parts)),
        measured_unix_s=now,
        took_s=time.monotonic() - began,
        methods=heard.methods,
        notes=(*others, *dict.fromkeys(heard.notes)),
        why=why,
        whole=heard.whole and why is None,
        alone=not others,
    )


def _silent(_: str) -> None:
    """Say nothing."""


def _run(
    command: Sequence[str], asked: Asked, patience_s: float, heard: _Heard, say: Say
) -> str | None:
    """Start the probe, take its lines; give the reason if it did not come to its end."""
    usual = os.environ if asked.environment is None else asked.environment
    environment = {name: value for name, value in usual.items() if name not in _NOT_OURS}
    with tempfile.TemporaryFile() as words:
        try:
            probe = subprocess.Popen(  # noqa: S603 - the user's own interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"{command[0]} cannot be started: {error}"
        try:
            in_time = _listen(probe, time.monotonic() + patience_s, heard, say)
            code = _ended(probe, time.monotonic() + (_END_S if in_time else 0.0))
        finally:
            _end(probe)
        if heard.ended or (in_time and code == 0 and heard.place is not None):
            return None
        if not in_time:
            return f"the probe did not end within {patience_s:.0f} s"
        return _why(code, words)


def _listen(probe: subprocess.Popen[bytes], until: float, heard: _Heard, say: Say) -> bool:
    """Take lines until the probe has said its last; ``False`` if that took too long.

    Not until the pipe is closed: what it leaves behind may hold that open.
    """
    assert probe.stdout is not None  # noqa: S101 - a pipe was asked for
    number, rest = probe.stdout.fileno(), b""
    while not heard.ended:
        left = until - time.monotonic()
        if left <= 0:
            return False
        if not select.select([number], [], [], min(left, 1.0))[0]:
            continue
        data = os.read(number, 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _take(line, heard, say)
    return True


def _take(line: bytes, heard: _Heard, say: Say) -> None:
    """Take one line of the probe's; others' are passed over."""
    try:
        told: Any = json.loads(line)
        if isinstance(told, dict) and "gapless_probe" in told:
            _understand(cast("dict[str, Any]", told), heard, say)
    except (ValueError, KeyError, TypeError):  # a line that looks like the probe's and is not
        heard.notes.append("a line of the probe was not understood")


def _understand(told: dict[str, Any], heard: _Heard, say: Say) -> None:
    if told["gapless_probe"] != FORM:
        raise ValueError("another form of lines")
    if "machine" in told:
        heard.place = msgspec.convert(told["machine"], Place)
    elif "begin" in told:
        heard.begun = told["begin"]
        if heard.begun not in heard.parts[-1:]:
            say(f"measuring this machine: {heard.begun}")
    elif "figures" in told:
        units: dict[str, str] = told["units"]
        found = [{**one, "unit": units[one["name"]]} for one in told["figures"]]
        heard.values += msgspec.convert(found, list[Constant])
        heard.methods.update(dict.fromkeys(units, str(told["method"])))
        heard.parts.append(told["part"])
        heard.whole = heard.whole and not told["late"]
        foreign = max(told["foreign"] or 0.0, heard.foreign.get(told["part"], 0.0))
        heard.foreign[told["part"]] = foreign
        heard.begun = None
    elif "ended" in told:
        heard.ended = True


def _busy(heard: _Heard) -> Iterator[str]:
    """Say who else was there before the probe, and meanwhile."""
    for part, foreign in heard.foreign.items():
        if foreign > _BUSY:
            yield f"others kept up to {foreign:.1f} processors busy while {part} was measured"
    place = heard.place
    if place is None:
        return
    if place.load is not None and place.load > place.processors:
        yield f"a load of {place.load:.1f} on {place.processors} processors before"
    if place.gpu is not None and (place.gpu.busy_percent or 0) > _BUSY_GPU:
        yield f"the GPU was busy {place.gpu.busy_percent} % of the time before"


def _ended(probe: subprocess.Popen[bytes], until: float) -> int | None:
    """Wait for the end; give the exit code, a signal's negative, or ``None`` if it lives on.

    It is not buried yet: its number stays that of its group until that has been ended.
    """
    while True:
        told = os.waitid(os.P_PID, probe.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if told is not None:
            return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status
        if time.monotonic() > until:
            return None
        time.sleep(_LOOK_S)


def _end(probe: subprocess.Popen[bytes]) -> None:
    """End what is left of the probe's session, which is a group of processes of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(probe.pid, signal.SIGKILL)
    probe.wait()
    if probe.stdout is not None:
        probe.stdout.close()


def _why(code: int | None, words: IO[bytes]) -> str:
    """Say how a probe ended that should not have, with its last words."""
    words.seek(0)
    lines = words.read().decode(errors="replace").strip().splitlines()
    said = f": {lines[-1][:_SAID]}" if lines else ""
    if code is None:
        return f"the probe did not end{said}"
    if code < 0:
        return f"the probe was ended by signal {-code}{said}"
    return f"the probe ended with {code}{said}"
