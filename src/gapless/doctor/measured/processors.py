"""What the processors compute and move together."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.measured.comparison import explain_absence
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import rate

_MIN_SHARE: Final = 0.3  # of as many times what one thread does; threads of a core share it
_REMEDY: Final = "ps -eo pid,user,pcpu,comm --sort=-pcpu | head"
_PRODUCT: Final = "cpu.gemm.fp32"
_G: Final = 1e9


def examine(subject: CheckSubject) -> CheckAnswer:
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
