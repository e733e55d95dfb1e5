"""What it takes the host to launch a kernel."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.measured.comparison import examine_measured, explain_absence
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants
from gapless.report.text.numbers import span

# ns of a launch: 2 to 5 µs is usual on processors of servers, more on slow or virtual ones.
_WANTED_NS: Final = 12_000
_MAX_NS: Final = 40_000
_CALL: Final = "launch.call"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the host's time for a launch: with many small kernels it bounds the step."""
    return examine_measured(subject, _judge)


def _judge(_: GpuReading, constants: Constants) -> CheckAnswer:
    call = constants.value(_CALL)
    if call is None:
        return unknown(explain_absence(constants, _CALL))
    others = {
        "an operator": constants.value("launch.op"),
        "a launch and the wait for it": constants.value("launch.round"),
    }
    words = [f"{span(ns)} for {label}" for label, ns in others.items() if ns is not None]
    evidence = ", ".join((f"{span(call)} for a launch", *words))
    remedy = "sudo cpupower frequency-set -g performance; then: gapless try --list (CUDA graphs)"
    if call > _MAX_NS:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if call > _WANTED_NS else ok(evidence)
