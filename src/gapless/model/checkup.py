"""What a check of the machine answers: a verdict, what it rests on, what to do."""

from enum import StrEnum

from msgspec import Struct


class CheckVerdict(StrEnum):
    """How a check came out, the worst first."""

    BAD = "bad"  # trainings fail, or lose much of their speed
    WARN = "warn"  # they may lose some
    UNKNOWN = "unknown"  # it could not be seen
    OK = "ok"


class CheckResult(Struct, frozen=True):
    """What one check found."""

    name: str  # "shared-memory"
    verdict: CheckVerdict
    evidence: str  # what was seen, with values; of an unknown: why it was not seen
    remedy: str | None = None  # what to type


class Checkup(Struct, frozen=True):
    """All checks of one machine."""

    subject: str  # the interpreter, the processors, the GPUs: what was checked
    results: tuple[CheckResult, ...]
    took_s: float
    python: str | None  # the interpreter that was asked; None: there is none
    notes: tuple[str, ...] = ()  # what was not checked, and why
