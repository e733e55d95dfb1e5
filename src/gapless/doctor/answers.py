"""What checks answer, and how the answers about several GPUs become one."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

from msgspec import Struct

from gapless.doctor.gpus import GpuReading, GpuSurvey
from gapless.doctor.interpreter import InterpreterReport, PackageFacts
from gapless.doctor.subject import CheckSubject
from gapless.model.checkup import CheckVerdict
from gapless.model.machine import Constants

NUMBERS: Final = "{gpus}"  # in a remedy: the numbers of the GPUs, as nvidia-smi -i takes them
_SEVERITY: Final = tuple(CheckVerdict)  # worst first


class CheckAnswer(Struct, frozen=True):
    """A verdict with its evidence, and what to type against it."""

    verdict: CheckVerdict
    evidence: str
    remedy: str | None = None


Examine = Callable[[CheckSubject], CheckAnswer]


def ok(evidence: str) -> CheckAnswer:
    """Answer that nothing is wrong."""
    return CheckAnswer(CheckVerdict.OK, evidence)


def warn(evidence: str, remedy: str) -> CheckAnswer:
    """Answer that speed may be lost."""
    return CheckAnswer(CheckVerdict.WARN, evidence, remedy)


def bad(evidence: str, remedy: str) -> CheckAnswer:
    """Answer that trainings fail, or lose much."""
    return CheckAnswer(CheckVerdict.BAD, evidence, remedy)


def unknown(why: str, remedy: str | None = None) -> CheckAnswer:
    """Answer that it could not be seen, and why."""
    return CheckAnswer(CheckVerdict.UNKNOWN, why, remedy)


def find_cuda_build(interpreter: InterpreterReport) -> PackageFacts | CheckAnswer:
    """Return what an interpreter says of its torch; without one for CUDA the answer instead."""
    facts = interpreter.facts
    if facts is None or not facts.complete or facts.torch is None:
        return unknown(interpreter.why or "there is no torch to ask")
    if facts.torch_why is not None:
        return unknown("torch cannot be imported")
    return ok("not needed: torch is built without CUDA") if facts.cuda is None else facts


def explain_absence(constants: Constants, name: str) -> str:
    """Return why a constant was not measured."""
    reasons = [constant.why for constant in constants.values if constant.name == name]
    why = next((reason for reason in reasons if reason), None)
    gpu = constants.place.gpu if constants.place is not None else None
    return why or constants.why or (gpu.why if gpu is not None else None) or "it was not measured"


def combine(answers: Sequence[CheckAnswer]) -> CheckAnswer:
    """Return the worst of several answers, with the evidence and remedies of all as bad as it."""
    verdict = min((answer.verdict for answer in answers), key=_SEVERITY.index)
    worst_answers = [answer for answer in answers if answer.verdict is verdict]
    remedies = dict.fromkeys(answer.remedy for answer in worst_answers if answer.remedy)
    evidence = dict.fromkeys(answer.evidence for answer in worst_answers)
    return CheckAnswer(verdict, "; ".join(evidence), "; ".join(remedies) or None)


def examine_gpus(survey: GpuSurvey, examine: Callable[[GpuReading], CheckAnswer]) -> CheckAnswer:
    """Examine each GPU; the evidence names those that it is about."""
    if not survey.gpus:
        return unknown(survey.why or "there is no GPU")
    gpus_by_answer: dict[CheckAnswer, list[int]] = {}
    for gpu in survey.gpus:
        gpus_by_answer.setdefault(examine(gpu), []).append(gpu.number)
    return combine([_name_in(answer, numbers) for answer, numbers in gpus_by_answer.items()])


def judge_each_gpu(judge: Callable[[GpuReading], CheckAnswer]) -> Examine:
    """Make a check of a judgement about a GPU: all are judged, on what NVML shows of each."""

    @wraps(judge)
    def examine(subject: CheckSubject) -> CheckAnswer:
        return examine_gpus(subject.survey, judge)

    return examine


def _name_in(answer: CheckAnswer, numbers: Sequence[int]) -> CheckAnswer:
    """Return an answer that names the GPUs that it is about."""
    listed = ",".join(map(str, numbers))
    remedy = None if answer.remedy is None else answer.remedy.replace(NUMBERS, listed)
    return CheckAnswer(answer.verdict, f"{_name_gpus(numbers)}: {answer.evidence}", remedy)


def _name_gpus(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    is_range = numbers[-1] - numbers[0] == len(numbers) - 1 and len(numbers) > 2  # noqa: PLR2004
    words = f"{numbers[0]}–{numbers[-1]}" if is_range else ", ".join(map(str, numbers))
    return f"GPUs {words}"
