"""A stored baseline: the arms of one or more sessions, and the machine that they ran on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.gate.figures import ArmFigures, figures_from_json, figures_to_json
from gapless.model.recording import Recording
from gapless.recorded.facts import facts as facts_of
from gapless.store.atomic import write_named_file

FILE: Final = "gapless-gate.json"
FORMAT: Final = 1
MAX_SESSIONS: Final = 10
_MAX_LINES: Final = 12  # of source, that an arm keeps


class MachineKind(Struct, frozen=True):
    """What must be alike for times to be compared, and the versions, which may differ."""

    processor: str | None
    processors: int | None
    gpus: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        """Return the machine in a few words."""
        gpus = f", {', '.join(self.gpus)}" if self.gpus else ""
        return f"{self.processor or 'unknown processor'} × {self.processors or '?'}{gpus}"

    def is_like(self, other: "MachineKind") -> bool:
        """Return whether times of both can be compared."""
        return replace(self, versions=()) == replace(other, versions=())


class BaselineSession(Struct, frozen=True):
    """The arms that were run at one time, those with windows included."""

    revision: str  # of git; "": not known
    arms: tuple[ArmFigures, ...]

    @property
    def step_times(self) -> tuple[float, ...]:
        """Return the step times of its arms without windows, in ns."""
        return tuple(arm.step_ns for arm in self.arms if not arm.windowed)


class Baseline(Struct, frozen=True):
    """What a gate without the other revision compares with."""

    command: tuple[str, ...]
    machine: MachineKind
    sessions: tuple[BaselineSession, ...]


def read_machine(recording: Recording) -> MachineKind:
    """Return the machine of an arm, as its training process noted it."""
    training = [process for process in recording.processes if process.role == "training"]
    facts = [fact for process in training for fact in process.facts]
    machines = [fact.values for fact in facts if fact.noun == "machine"]
    device = facts_of(recording).machine.device
    values: Mapping[str, object] = machines[0] if machines else {}
    processor, processors = values.get("processor"), values.get("cpus")
    versions: Mapping[str, str] = training[0].versions if training else {}
    return MachineKind(
        None if processor is None else str(processor),
        processors if isinstance(processors, int) else None,
        () if device is None else (str(device),),
        tuple((name, str(text)) for name, text in sorted(versions.items())),
    )


def read_baseline(path: Path) -> Baseline:
    """Return a stored baseline. Raises ``UsageError`` where there is none, or none of ours."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["format"] > FORMAT:
            raise UsageError(f"{path} was written by a newer gapless (format {values['format']})")
        machine = values["machine"]
        return Baseline(
            tuple(values["command"]),
            MachineKind(
                machine["processor"],
                machine["processors"],
                tuple(machine["gpus"]),
                tuple((name, text) for name, text in machine["versions"]),
            ),
            tuple(_read_session(session) for session in values["sessions"]),
        )
    except FileNotFoundError:
        msg = (
            f"there is no baseline {path}; gapless gate --update writes it, or name the other "
            "revision: --against git:main"
        )
        raise UsageError(msg) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is no baseline of gapless: {error}") from error


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, a line for each arm. Raises ``UsageError`` where that is not possible."""
    head: dict[str, object] = {
        "format": FORMAT,
        "command": baseline.command,
        "machine": msgspec.to_builtins(baseline.machine),
        "sessions": [],
    }
    sessions = ",\n".join(_session_text(session) for session in baseline.sessions)
    text = json.dumps(head, indent=1, ensure_ascii=False).replace(
        '"sessions": []', f'"sessions": [\n{sessions}\n]'
    )
    try:
        write_named_file(path, f"{text}\n".encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def add_session(baseline: Baseline, session: BaselineSession) -> Baseline:
    """Return a baseline with one session more; the oldest go where there are too many."""
    return replace(baseline, sessions=(*baseline.sessions, session)[-MAX_SESSIONS:])


def _session_text(session: BaselineSession) -> str:
    arms = ",\n".join(
        json.dumps(figures_to_json(_shorten(arm)), ensure_ascii=False) for arm in session.arms
    )
    return f'{{"revision": {json.dumps(session.revision)}, "arms": [\n{arms}\n]}}'


def _shorten(arm: ArmFigures) -> ArmFigures:
    lines = sorted(arm.lines, key=lambda line: -line.share)
    return replace(arm, lines=tuple(lines[:_MAX_LINES]))


def _read_session(values: Mapping[str, Any]) -> BaselineSession:
    arms: Sequence[Mapping[str, Any]] = values["arms"]
    return BaselineSession(str(values["revision"]), tuple(map(figures_from_json, arms)))
