"""The constants of the machine that a run was recorded on, where they are kept; what is said."""

import time
from dataclasses import dataclass
from typing import Final

from gapless.model.machine import Constants
from gapless.model.recording import Fact, Recording
from gapless.study.machine_constants import Told, kept_of
from gapless.study.recorded.facts import facts
from gapless.study.recorded.training import steppers, trainings
from gapless.study.recorded.values import text, whole

_NS: Final = 1e9


def kept(recording: Recording) -> Constants | None:
    """Give what is kept of the machine of a run, as its first training process tells it."""
    found = told(recording)
    return None if found is None else kept_of(found)


def told(recording: Recording) -> Told | None:
    """Give what a run tells of where it ran; ``None`` where nothing of it trained."""
    fact = machine_of(recording)
    every = trainings(recording)
    first = next(iter(steppers(every) or every), None)
    if first is None or fact is None:
        return None
    versions, values = first.process.versions, fact.values
    return Told(
        python=versions.get("python"),
        torch=versions.get("torch"),
        processor=text(values.get("processor")),
        processors=whole(values.get("processors")),
        device=facts(recording).machine.device is not None,
        uuid=text(values.get("device_uuid")),
        driver=text(values.get("driver")),
        at_unix_s=recording.manifest.started_unix_ns / _NS,
    )


@dataclass(frozen=True)
class Interpreter:
    """Where the machine is to be measured for a run: its Python, and its GPU, if it used one."""

    python: str
    device: int | None


def asked_of(recording: Recording) -> Interpreter | None:
    """Give where to measure; ``None`` where a run does not tell its interpreter."""
    fact = machine_of(recording)
    python = None if fact is None else text(fact.values.get("executable"))
    if fact is None or python is None:
        return None
    return Interpreter(python, None if facts(recording).machine.device is None else 0)


def machine_of(recording: Recording) -> Fact | None:
    """Give what the first training process tells of its machine."""
    every = trainings(recording)
    first = next(iter(steppers(every) or every), None)
    every_fact = () if first is None else first.process.facts
    return next((one for one in every_fact if one.noun == "machine"), None)


def note(found: Constants) -> str:
    """Say that predictions rest on what was measured at another time."""
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(found.measured_unix_s))
    of = "GPU, driver" if found.place is not None and found.place.gpu is not None else "processors"
    return (
        f"predictions use the machine's constants of {day} UTC (same {of} and torch; gapless try "
        "--machine measures them anew); none was measured in this run"
    )
