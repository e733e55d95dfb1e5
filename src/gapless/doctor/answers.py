"""What checks answer, and how the answers about several GPUs become one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gapless.doctor.gpus import GpuReading, GpuSurvey
from gapless.model.checkup import CheckVerdict

_SEVERITY: Final = tuple(CheckVerdict)  # worst first


@dataclass(frozen=True)
class CheckAnswer:
    """A verdict with its evidence, and what to type against it."""

    verdict: CheckVerdict
    evidence: str
    remedy: str | None = None


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
    numbers_by_answer: dict[CheckAnswer, list[int]] = {}
    for gpu in survey.gpus:
        numbers_by_answer.setdefault(examine(gpu), []).append(gpu.number)
    return combine(
        [
            CheckAnswer(answer.verdict, f"{_name_gpus(numbers)}: {answer.evidence}", answer.remedy)
            for answer, numbers in numbers_by_answer.items()
        ]
    )


def _name_gpus(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    is_range = numbers[-1] - numbers[0] == len(numbers) - 1 and len(numbers) > 2  # noqa: PLR2004
    words = f"{numbers[0]}–{numbers[-1]}" if is_range else ", ".join(map(str, numbers))
    return f"GPUs {words}"
