"""The constants of the machine that a run was recorded on, where they are kept; what is said."""

import time
from dataclasses import dataclass
from typing import Final

from gapless.model.machine import Constants
from gapless.model.recording import Fact, Recording
from gapless.study.machine_constants import RunMachine, find_stored
from gapless.study.recorded.facts import facts
from gapless.study.recorded.training import select_steppers, trainings
from gapless.study.recorded.values import as_text, as_int

_NS_PER_S: Final = 1e9


def find_constants(recording: Recording) -> Constants | None:
    """Return what is kept of the machine of a run, as its first training process tells it."""
    run_machine = describe_machine(recording)
    return None if run_machine is None else find_stored(run_machine)


def describe_machine(recording: Recording) -> RunMachine | None:
    """Return what a run tells of where it ran; ``None`` where nothing of it trained."""
    fact = machine_fact(recording)
    processes = trainings(recording)
    training = next(iter(select_steppers(processes) or processes), None)
    if training is None or fact is None:
        return None
    versions, values = training.process.versions, fact.values
    return RunMachine(
        python=versions.get("python"),
        torch=versions.get("torch"),
        processor=as_text(values.get("processor")),
        processors=as_int(values.get("processors")),
        device=facts(recording).machine.device is not None,
        uuid=as_text(values.get("device_uuid")),
        driver=as_text(values.get("driver")),
        at_unix_s=recording.manifest.started_unix_ns / _NS_PER_S,
    )


@dataclass(frozen=True)
class Interpreter:
    """Where the machine is to be measured for a run: its Python, and its GPU, if it used one."""

    python: str
    device: int | None


def find_interpreter(recording: Recording) -> Interpreter | None:
    """Return where to measure; ``None`` where a run does not tell its interpreter."""
    fact = machine_fact(recording)
    python = None if fact is None else as_text(fact.values.get("executable"))
    if fact is None or python is None:
        return None
    return Interpreter(python, None if facts(recording).machine.device is None else 0)


def machine_fact(recording: Recording) -> Fact | None:
    """Return what the first training process tells of its machine."""
    processes = trainings(recording)
    training = next(iter(select_steppers(processes) or processes), None)
    process_facts = () if training is None else training.process.facts
    return next((fact for fact in process_facts if fact.noun == "machine"), None)


def constants_note(constants: Constants) -> str:
    """Say that predictions rest on what was measured at another time."""
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(constants.measured_unix_s))
    hardware = "GPU, driver" if constants.place is not None and constants.place.gpu is not None else "processors"
    return (
        f"predictions use the machine's constants of {day} UTC (same {hardware} and torch; gapless try "
        "--machine measures them anew); none was measured in this run"
    )
