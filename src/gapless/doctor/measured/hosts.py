"""What was measured of the processors, and of the storage of the data."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, explain_absence, ok, unknown, warn
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants
from gapless.report.text.numbers import rate

_MIN_SHARE: Final = 0.3  # of as many times what one thread does; threads of a core share it
_REMEDY: Final = "ps -eo pid,user,pcpu,comm --sort=-pcpu | head"
_PRODUCT: Final = "cpu.gemm.fp32"
_G: Final = 1e9
# Both below these: few trainings of pictures or text are fed by it.
_WANTED_RATE: Final = 100e6  # bytes a second
_WANTED_FILES: Final = 500.0  # files a second
_MIN_RATE: Final = 20e6
_MIN_FILES: Final = 100.0
_RATE: Final = "data.rate"
_FILE: Final = "data.file"
_NS: Final = 1e9


def examine_cpu_products(subject: CheckSubject) -> CheckAnswer:
    """Compare products with all processors and with one: others or a quota take the difference."""
    constants = subject.host_constants
    if constants is None:
        return unknown("it was not measured")
    series = constants.series(_PRODUCT)
    if not series:
        return unknown(explain_absence(constants, _PRODUCT))
    (_, single), (n_threads, together) = series[0], series[-1]
    speed = constants.value("cpu.memory.triad", n_threads)
    evidence = f"products of {together / _G:.0f} GFLOP/s with {n_threads} threads"
    if n_threads > 1:
        evidence += f", {single / _G:.0f} with one"
    if speed is not None:
        evidence += f"; memory {rate(speed)}"
    notes = [note for note in constants.notes if "others" in note or "load" in note]
    if n_threads > 1 and together < _MIN_SHARE * n_threads * single:
        words = f"; {notes[0]}" if notes else ""
        return warn(f"{evidence}: far from as many times as much{words}", _REMEDY)
    return ok(evidence)


def examine_data(subject: CheckSubject) -> CheckAnswer:
    """Measure how fast files of the data are read, cold by one reader and by eight, and warm.

    cold: their pages were dropped from memory first (only theirs, and only as far as the kernel
    does so); caches of a disk or a server are not emptied by it. Nothing is written.
    """
    constants, folder = subject.host_constants, subject.folder
    if constants is None:
        return unknown(folder.why or "it was not measured")
    if not folder.files:
        return unknown(folder.why or f"{folder.path} holds no file that can be read")
    states = [state for state in ("cold", "warm") if constants.series(f"{_RATE}.{state}")]
    if not states:
        return unknown(folder.why or explain_absence(constants, f"{_RATE}.warm"))
    words = [f"{state} {_describe(constants, state)}" for state in states]
    why_not = (
        "" if "cold" in states else f"; not cold: {explain_absence(constants, f'{_RATE}.cold')}"
    )
    evidence = f"{folder.files} files of {folder.path}: {'; '.join(words)}{why_not}"
    speed = max(value for _, value in constants.series(f"{_RATE}.{states[0]}"))
    files = _NS / min(value for _, value in constants.series(f"{_FILE}.{states[0]}"))
    remedy = f"rsync -a {folder.path} to a local SSD; or pack small files into few large ones"
    if speed < _MIN_RATE and files < _MIN_FILES:
        return bad(evidence, remedy)
    if speed < _WANTED_RATE and files < _WANTED_FILES:
        return warn(evidence, remedy)
    return ok(evidence)


def _describe(constants: Constants, state: str) -> str:
    """Return bytes and files a second, by readers."""
    file_ns = dict(constants.series(f"{_FILE}.{state}"))
    return ", ".join(
        f"{rate(speed)} ({_NS / file_ns[readers]:,.0f} files/s) by {readers} reader"
        f"{'s' * (readers > 1)}"
        for readers, speed in constants.series(f"{_RATE}.{state}")
        if readers in file_ns
    )
