"""The machine's constants, measured once: from the cache, else by the probe.

``gapless try --machine`` measures them; studies of runs use stored ones, if the run was recorded on
the same machine (``find_stored``). They are never a figure of the run itself.
"""

import time
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.launch import probing
from gapless.launch.probing import ProbeRequest, Progress
from gapless.model.machine import Constants, Gpu, Platform
from gapless.store import constants as store

_DAY_S: Final = 86400.0
_MAX_DISTURBED_S: Final = 3600.0
_MAX_DEVICES: Final = 16  # numbers of GPUs that may have been measured


class ReusePolicy(Struct, frozen=True):
    """When constants that were measured before are good enough."""

    remeasure: bool = False  # measure in any case
    max_age_days: float = 30.0
    save: bool = True


def constants(
    python: str,
    device: int | None,
    path: str | None,
    report_progress: Progress,
    policy: ReusePolicy | None = None,
) -> Constants:
    """Return the constants of the machine, as seen by an interpreter.

    ``device``: number of the GPU, ``None`` for none; ``path``: where the training's data lies;
    ``report_progress`` gets what is being measured. Never raises for a probe that fails: its
    constants are absent, and ``Constants.why`` has the reason.
    """
    return load_or_measure(python, ProbeRequest(device=device, path=path), report_progress, policy)


def load_or_measure(
    python: str, request: ProbeRequest, report_progress: Progress, policy: ReusePolicy | None = None
) -> Constants:
    """Return the requested constants; see ``constants``."""
    policy = policy or ReusePolicy()
    machine = None if policy.remeasure else probing.identify_platform(python, request)
    stored = None if machine is None else _load_stored(machine, request)
    if stored is not None and stored.age_s(time.time()) <= _max_age_s(stored, policy):
        return stored
    measured = probing.measure(python, request, report_progress)
    if policy.save and _is_reusable(measured):
        store.save(measured, _request_key(request))
    return measured


class RunMachine(Struct, frozen=True):
    """What a run recorded about where it ran; ``None``: not recorded."""

    python: str | None
    torch: str | None
    processor: str | None
    processors: int | None
    device: bool  # it used a GPU
    uuid: str | None
    driver: str | None
    at_unix_s: float


def find_stored(run_machine: RunMachine) -> Constants | None:
    """Return the stored constants of the machine a run was recorded on, the nearest in time.

    ``None`` where there are none, or the run did not record all that they depend on.
    """
    candidates = [
        candidate
        for candidate in store.find_all(_possible_keys())
        if candidate.place is not None
        and _is_same_machine(candidate.place, run_machine)
        and _is_near(candidate, run_machine.at_unix_s)
    ]
    return min(
        candidates,
        key=lambda candidate: abs(candidate.measured_unix_s - run_machine.at_unix_s),
        default=None,
    )


def _possible_keys() -> tuple[str, ...]:
    """Return the requests that ``gapless try --machine`` may have made."""
    return tuple(
        _request_key(ProbeRequest(device=device)) for device in (None, *range(_MAX_DEVICES))
    )


def _is_near(stored: Constants, at_unix_s: float) -> bool:
    """Return whether constants are of about the same time, and of a machine that was free.

    What was measured while others ran is what they left, not a peak.
    """
    is_recent = abs(stored.measured_unix_s - at_unix_s) <= ReusePolicy().max_age_days * _DAY_S
    return is_recent and stored.alone


def _is_same_machine(machine: Platform, run_machine: RunMachine) -> bool:
    """Return whether constants hold where a run was; what it did not record counts as different."""
    identity = (machine.python, machine.processor, machine.processors)
    if identity != (run_machine.python, run_machine.processor, run_machine.processors):
        return False
    return _is_same_torch(machine.torch, run_machine.torch) and (
        not run_machine.device or _is_same_gpu(machine.gpu, run_machine)
    )


def _is_same_torch(version: str | None, other_version: str | None) -> bool:
    """Compare versions; a package may leave out what follows "+"."""
    if version is None or other_version is None:
        return False
    (release, _, build), (other_release, _, other_build) = (
        version.partition("+"),
        other_version.partition("+"),
    )
    return release == other_release and (not build or not other_build or build == other_build)


def _is_same_gpu(gpu: Gpu | None, run_machine: RunMachine) -> bool:
    if (
        gpu is None
        or None in (gpu.uuid, gpu.driver, run_machine.uuid, run_machine.driver)
        or gpu.why
    ):
        return False
    return (_normalise_uuid(gpu.uuid), gpu.driver) == (
        _normalise_uuid(run_machine.uuid),
        run_machine.driver,
    )


def _normalise_uuid(uuid: str | None) -> str:
    return (uuid or "").lower().removeprefix("gpu-")


def _max_age_s(stored: Constants, policy: ReusePolicy) -> float:
    """Return how old constants may be; incomplete or disturbed ones are soon measured again."""
    max_age_s = policy.max_age_days * _DAY_S
    return max_age_s if stored.whole and stored.alone else min(max_age_s, _MAX_DISTURBED_S)


def _load_stored(machine: Platform, request: ProbeRequest) -> Constants | None:
    """Return what was measured for the same request, or for the one without parts."""
    stored = store.load(machine, _request_key(replace(request, parts=())))
    return (
        store.load(machine, _request_key(request)) if stored is None and request.parts else stored
    )


def _request_key(request: ProbeRequest) -> str:
    return " ".join(request.options())


def _is_reusable(measured: Constants) -> bool:
    """Return whether constants can be reused: of a GPU that can be identified, and was free."""
    machine = measured.place
    if machine is None or measured.why is not None:
        return False
    return machine.gpu is None or (machine.gpu.why is None and machine.gpu.uuid is not None)
