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
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
from msgspec import Struct, field

from gapless.model.machine import Constant, Constants, Platform

PROBE: Final = Path(__file__).resolve().parents[1] / "probe" / "machine.py"
FORM: Final = 1  # of the probe's lines
_IDENTIFY_S: Final = 60.0  # a cold network disk may take so long to give an interpreter
_USUAL_S: Final = {False: 12.0, True: 25.0}  # with a GPU or without, as the probe itself has it
_PATIENCE: Final = 2.0  # times the time that the probe has, and
_MORE_S: Final = 30.0  # for importing torch from a cold disk
_END_S: Final = 5.0  # between the last line and the end
_POLL_S: Final = 0.01
_BUSY: Final = 0.25  # processors that others took meanwhile
_BUSY_GPU: Final = 5  # per cent of the time
_MAX_LAST_WORDS: Final = 200  # characters of its last words
# docstrings are wanted
_HIDDEN_VARIABLES: Final = ("GAPLESS_SPOOL", "GAPLESS_OPTIONS", "PYTHONOPTIMIZE")

Progress = Callable[[str], None]


class ProbeRequest(Struct, frozen=True):
    """What the probe is to measure."""

    device: int | None = None  # number of the GPU as torch counts; None: no GPU
    path: str | None = None  # of the training's data
    files: tuple[str, ...] = ()  # of the training's data, which may be dropped from memory
    parts: tuple[str, ...] = ()  # empty: all
    readers: tuple[int, ...] = ()  # of these files, at a time; empty: as usual
    seconds: float | None = None  # for all; None: what is usual
    scale: float = 1.0  # of each measurement's time
    largest: int | None = None  # bytes of a buffer
    environment: Mapping[str, str] | None = None  # None: ours

    def options(self) -> list[str]:
        """Return the request as the probe's command line."""
        single_values = {
            "--device": self.device,
            "--path": self.path,
            "--seconds": self.seconds,
            "--largest": self.largest,
        }
        flags = [f"{name}={value}" for name, value in single_values.items() if value is not None]
        flags += [f"--file={file}" for file in self.files]
        flags += [f"--readers={readers}" for readers in self.readers]
        flags += [f"--part={part_name}" for part_name in self.parts]
        return [*flags, f"--scale={self.scale}"]


class _ProbeLog(Struct):
    """What the probe has said so far."""

    platform: Platform | None = None
    values: list[Constant] = field(default_factory=list[Constant])
    methods: dict[str, str] = field(default_factory=dict[str, str])
    parts: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    # processors, by part
    foreign_by_part: dict[str, float] = field(default_factory=dict[str, float])
    running_part: str | None = None  # a part that has not ended
    has_ended: bool = False
    is_complete: bool = True


def identify_platform(python: str, request: ProbeRequest) -> Platform | None:
    """Return where constants would hold, without torch; ``None`` if the interpreter fails."""
    log = _ProbeLog()
    _run(
        [python, str(PROBE), "--identify", *request.options()],
        request,
        _IDENTIFY_S,
        log,
        _ignore_progress,
    )
    return log.platform


def measure(python: str, request: ProbeRequest, report_progress: Progress) -> Constants:
    """Run the probe in an interpreter; what it could not measure is absent, with the reason.

    ``report_progress`` is called with what is being measured.
    """
    began, now = time.monotonic(), time.time()
    log = _ProbeLog()
    seconds = request.seconds or _USUAL_S[request.device is not None]
    command = [python, str(PROBE), "--json", *request.options()]
    why = _run(command, request, _PATIENCE * seconds + _MORE_S, log, report_progress)
    if why is not None and log.running_part is not None:
        why = f"{why}, while it measured: {log.running_part}"
    disturbances = tuple(_find_disturbances(log))
    return Constants(
        place=log.platform,
        values=tuple(log.values),
        parts=tuple(dict.fromkeys(log.parts)),
        measured_unix_s=now,
        took_s=time.monotonic() - began,
        methods=log.methods,
        notes=(*disturbances, *dict.fromkeys(log.notes)),
        why=why,
        whole=log.is_complete and why is None,
        alone=not disturbances,
    )


def _ignore_progress(_: str) -> None:
    """Do nothing."""


def _run(
    command: Sequence[str],
    request: ProbeRequest,
    patience_s: float,
    log: _ProbeLog,
    report_progress: Progress,
) -> str | None:
    """Start the probe and read its lines; return the reason if it did not come to its end."""
    inherited = os.environ if request.environment is None else request.environment
    environment = {
        name: value for name, value in inherited.items() if name not in _HIDDEN_VARIABLES
    }
    with tempfile.TemporaryFile() as stderr:
        try:
            probe = subprocess.Popen(  # noqa: S603 - the user's own interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"{command[0]} cannot be started: {error}"
        try:
            in_time = _listen(probe, time.monotonic() + patience_s, log, report_progress)
            code = _wait_for_end(probe, time.monotonic() + (_END_S if in_time else 0.0))
        finally:
            _end(probe)
        if log.has_ended or (in_time and code == 0 and log.platform is not None):
            return None
        if not in_time:
            return f"the probe did not end within {patience_s:.0f} s"
        return _describe_end(code, stderr)


def _listen(
    probe: subprocess.Popen[bytes], until: float, log: _ProbeLog, report_progress: Progress
) -> bool:
    """Read lines until the probe has ended its report; ``False`` if that took too long.

    Not until the pipe is closed: what it leaves behind may hold that open.
    """
    assert probe.stdout is not None  # noqa: S101 - a pipe was asked for
    descriptor, partial_line = probe.stdout.fileno(), b""
    while not log.has_ended:
        remaining_s = until - time.monotonic()
        if remaining_s <= 0:
            return False
        if not select.select([descriptor], [], [], min(remaining_s, 1.0))[0]:
            continue
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        *lines, partial_line = (partial_line + chunk).split(b"\n")
        for line in lines:
            _take_line(line, log, report_progress)
    return True


def _take_line(line: bytes, log: _ProbeLog, report_progress: Progress) -> None:
    """Take one line of the probe's; other programs' lines are passed over."""
    try:
        message: Any = json.loads(line)
        if isinstance(message, dict) and "gapless_probe" in message:
            _apply_message(cast("dict[str, Any]", message), log, report_progress)
    except (ValueError, KeyError, TypeError):  # a line that looks like the probe's and is not
        log.notes.append("a line of the probe was not understood")


def _apply_message(message: dict[str, Any], log: _ProbeLog, report_progress: Progress) -> None:
    if message["gapless_probe"] != FORM:
        raise ValueError("another form of lines")
    if "machine" in message:
        log.platform = msgspec.convert(message["machine"], Platform)
    elif "begin" in message:
        log.running_part = message["begin"]
        if log.running_part not in log.parts[-1:]:
            report_progress(f"measuring this machine: {log.running_part}")
    elif "figures" in message:
        units: dict[str, str] = message["units"]
        figures = [{**figure, "unit": units[figure["name"]]} for figure in message["figures"]]
        log.values += msgspec.convert(figures, list[Constant])
        log.methods.update(dict.fromkeys(units, str(message["method"])))
        log.parts.append(message["part"])
        log.is_complete = log.is_complete and not message["late"]
        foreign = max(message["foreign"] or 0.0, log.foreign_by_part.get(message["part"], 0.0))
        log.foreign_by_part[message["part"]] = foreign
        log.running_part = None
    elif "ended" in message:
        log.has_ended = True


def _find_disturbances(log: _ProbeLog) -> Iterator[str]:
    """Describe who else used the machine before the probe, and meanwhile."""
    for part_name, foreign in log.foreign_by_part.items():
        if foreign > _BUSY:
            yield f"others kept up to {foreign:.1f} processors busy while {part_name} was measured"
    platform = log.platform
    if platform is None:
        return
    if platform.load is not None and platform.load > platform.processors:
        yield f"a load of {platform.load:.1f} on {platform.processors} processors before"
    if platform.gpu is not None and (platform.gpu.busy_percent or 0) > _BUSY_GPU:
        yield f"the GPU was busy {platform.gpu.busy_percent} % of the time before"


def _wait_for_end(probe: subprocess.Popen[bytes], until: float) -> int | None:
    """Wait for the end; return the exit code, a signal's negative, or ``None`` if it lives on.

    It is not buried yet: its number stays that of its group until that has been ended.
    """
    while True:
        exit_info = os.waitid(os.P_PID, probe.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if exit_info is not None:
            return (
                exit_info.si_status if exit_info.si_code == os.CLD_EXITED else -exit_info.si_status
            )
        if time.monotonic() > until:
            return None
        time.sleep(_POLL_S)


def _end(probe: subprocess.Popen[bytes]) -> None:
    """End what is left of the probe's session, which is a group of processes of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(probe.pid, signal.SIGKILL)
    probe.wait()
    if probe.stdout is not None:
        probe.stdout.close()


def _describe_end(code: int | None, stderr: IO[bytes]) -> str:
    """Describe the end of a probe that failed, with its last words."""
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    last_words = f": {lines[-1][:_MAX_LAST_WORDS]}" if lines else ""
    if code is None:
        return f"the probe did not end{last_words}"
    if code < 0:
        return f"the probe was ended by signal {-code}{last_words}"
    return f"the probe ended with {code}{last_words}"
