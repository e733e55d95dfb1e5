"""The stored constants of the machine that a run was recorded on, and the note about them."""

import time
from typing import Final

from msgspec import Struct

from gapless.model.machine import Constants
from gapless.model.recording import Fact, Recording
from gapless.recorded.facts import facts
from gapless.recorded.training.processes import select_steppers, trainings
from gapless.recorded.values import as_int, as_text
from gapless.study.machine_constants import RunMachine, find_stored

_NS_PER_S: Final = 1e9


def find_constants(recording: Recording) -> Constants | None:
    """Return the stored constants of a run's machine, as its first training process names it."""
    run_machine = describe_machine(recording)
    return None if run_machine is None else find_stored(run_machine)


def describe_machine(recording: Recording) -> RunMachine | None:
    """Return what a run recorded about where it ran; ``None`` where nothing trained."""
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


class Interpreter(Struct, frozen=True):
    """Where to measure the machine for a run: its Python, and its GPU, if it used one."""

    python: str
    device: int | None


def find_interpreter(recording: Recording) -> Interpreter | None:
    """Return where to measure; ``None`` if a run did not record its interpreter."""
    fact = machine_fact(recording)
    python = None if fact is None else as_text(fact.values.get("executable"))
    if fact is None or python is None:
        return None
    return Interpreter(python, None if facts(recording).machine.device is None else 0)


def machine_fact(recording: Recording) -> Fact | None:
    """Return a fact that the first training process recorded about its machine."""
    processes = trainings(recording)
    training = next(iter(select_steppers(processes) or processes), None)
    process_facts = () if training is None else training.process.facts
    return next((fact for fact in process_facts if fact.noun == "machine"), None)


def constants_note(constants: Constants) -> str:
    """Note that predictions rest on what was measured at another time."""
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(constants.measured_unix_s))
    hardware = (
        "GPU, driver"
        if constants.place is not None and constants.place.gpu is not None
        else "processors"
    )
    return (
        f"predictions use the machine's constants of {day} UTC (same {hardware} and torch; "
        "gapless try --machine measures them again); none was measured in this run"
    )
