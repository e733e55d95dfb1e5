"""What was measured on each GPU, against what it is known to reach."""

from collections.abc import Callable

from gapless.doctor.answers import CheckAnswer, examine_gpus, unknown
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants

Judge = Callable[[GpuReading, Constants], CheckAnswer]


def examine_measured(subject: CheckSubject, judge: Judge) -> CheckAnswer:
    """Judge what was measured on each GPU; unknown, with the reason, where nothing was."""
    constants_by_gpu = {
        measurement.number: measurement.constants for measurement in subject.gpu_measurements
    }

    def examine_gpu(gpu: GpuReading) -> CheckAnswer:
        constants = constants_by_gpu.get(gpu.number)
        if constants is None:
            return unknown("it was not measured")
        return judge(gpu, constants)

    return examine_gpus(subject.survey, examine_gpu)


def explain_absence(constants: Constants, name: str) -> str:
    """Return why a constant was not measured."""
    reasons = [constant.why for constant in constants.values if constant.name == name]
    why = next((reason for reason in reasons if reason), None)
    gpu = constants.place.gpu if constants.place is not None else None
    return why or constants.why or (gpu.why if gpu is not None else None) or "it was not measured"
