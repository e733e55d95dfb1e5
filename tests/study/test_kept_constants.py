"""Constants that were kept, in a run's study: of the same machine, told as another time's."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.launch.probing import ProbeRequest
from gapless.model.machine import Constant, Constants, Gpu, Platform
from gapless.model.options import Options
from gapless.model.recording import Recording
from gapless.store import constants as store
from gapless.store.run.recordings import load
from gapless.study import run_constants
from gapless.study.build_run import account_run, prices_of_run
from gapless.study.machine_constants import RunMachine, find_stored
from tests.traces import recorded_run

GPU = Gpu("a GPU", "6B29-11", "580.1", 1 << 34, 0)
PLATFORM = Platform("/usr/bin/python3", "3.12.3", "2.11.0", "a processor", 16, gpu=GPU)
RUN_MACHINE = RunMachine(
    "3.12.3",
    "2.11.0+cu130",
    "a processor",
    16,
    True,  # noqa: FBT003
    "gpu-6b29-11",
    "580.1",
    1e9,
)

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_CACHE", str(tmp_path / "cache"))


def keep(
    platform: Platform = PLATFORM, unix_s: float = 1e9, launch: float = 2100.0, **changes: object
) -> None:
    constant = Constant("launch.call", "ns", None, launch, 2000.0, 2400.0, 30, 0.5)
    measured = replace(Constants(platform, (constant,), ("launches",), unix_s, 3.5), **changes)  # type: ignore[arg-type]
    device = None if platform.gpu is None else 0
    assert store.save(measured, " ".join(ProbeRequest(device=device).options())) is None


def launch_ns(machine: RunMachine) -> float | None:
    stored = find_stored(machine)
    return None if stored is None else stored.value("launch.call")


def test_what_was_measured_on_the_same_machine_is_found() -> None:
    assert find_stored(RUN_MACHINE) is None
    keep()
    assert launch_ns(RUN_MACHINE) == 2100.0


@pytest.mark.parametrize(
    "changes",
    [
        {"python": "3.12.4"},
        {"torch": "2.12.0"},
        {"torch": None},
        {"processor": "another"},
        {"processors": 8},
        {"processors": None},
        {"uuid": "6b29-12"},
        {"uuid": None},
        {"driver": "580.2"},
        {"driver": None},
        {"at_unix_s": 1e9 + 31 * DAY},
        {"at_unix_s": 1e9 - 31 * DAY},
    ],
    ids=str,
)
def test_of_another_machine_or_time_or_one_that_is_not_told_nothing_holds(
    changes: Mapping[str, object],
) -> None:
    keep()
    assert launch_ns(replace(RUN_MACHINE, **changes)) is None  # type: ignore[arg-type]


def test_builds_of_torch_are_compared_where_both_tell_them() -> None:
    keep(replace(PLATFORM, torch="2.11.0+cu128"))
    assert launch_ns(RUN_MACHINE) is None
    assert launch_ns(replace(RUN_MACHINE, torch="2.11.0")) == 2100.0


def test_what_was_measured_beside_others_is_not_taken() -> None:
    keep(alone=False)
    assert find_stored(RUN_MACHINE) is None


def test_what_did_not_come_to_its_end_has_what_it_has() -> None:
    keep(whole=False, unix_s=1e9 + 20 * DAY)
    assert launch_ns(RUN_MACHINE) == 2100.0


def test_a_run_without_a_gpu_asks_for_none() -> None:
    keep(replace(PLATFORM, gpu=None))
    assert find_stored(RUN_MACHINE) is None
    assert launch_ns(replace(RUN_MACHINE, device=False, uuid=None, driver=None)) == 2100.0


def test_the_nearest_in_time_is_taken() -> None:
    keep(unix_s=1e9 - 2 * DAY, launch=1.0)
    keep(replace(PLATFORM, executable="/usr/bin/python"), unix_s=1e9 + DAY, launch=2.0)
    assert launch_ns(RUN_MACHINE) == 2.0


# ── In a study ──────────────────────────────────────────────────────────────────────────────────


def recording_with(**values: object) -> Recording:
    """Return the story, as if its process had told where it ran."""
    recording = load(recorded_run())
    (fact,) = (
        candidate for candidate in recording.processes[0].facts if candidate.noun == "machine"
    )
    extended_fact = replace(fact, values={**fact.values, **values})
    facts = tuple(
        extended_fact if process_fact is fact else process_fact
        for process_fact in recording.processes[0].facts
    )
    first_process = replace(recording.processes[0], facts=facts)
    return replace(recording, processes=(first_process, *recording.processes[1:]))


PLATFORM_VALUES = {
    "processor": "a processor",
    "processors": 16,
    "device_uuid": "6b29-11",
    "driver": "580.1",
    "executable": "/usr/bin/python3",
}


def test_an_old_record_that_does_not_tell_has_none() -> None:
    keep()
    machine = run_constants.describe_machine(load(recorded_run()))
    assert machine is not None
    assert (machine.uuid, machine.driver, machine.processor) == (None, None, None)
    assert run_constants.find_constants(load(recorded_run())) is None
    assert run_constants.find_interpreter(load(recorded_run())) is None


def test_a_study_predicts_with_them_and_says_when_they_were_measured() -> None:
    story = recording_with(**PLATFORM_VALUES)
    machine = run_constants.describe_machine(story)
    assert machine is not None
    keep(
        replace(PLATFORM, python=str(machine.python), torch=machine.torch),
        unix_s=machine.at_unix_s - DAY,
    )
    run_account = account_run(story, Options(), lambda _: None)
    evidence = prices_of_run(run_account, cached=True).evidence
    assert evidence.constants is not None
    assert evidence.study.recorded is not None
    day = time.strftime("%Y-%m-%d", time.gmtime(machine.at_unix_s - DAY))
    assert f"constants of {day}" in evidence.study.recorded.notes[-1]
    assert "none was measured in this run" in evidence.study.recorded.notes[-1]
    assert prices_of_run(run_account, cached=False).evidence.constants is None


def test_the_run_tells_where_to_measure() -> None:
    interpreter = run_constants.find_interpreter(recording_with(**PLATFORM_VALUES))
    assert interpreter == run_constants.Interpreter("/usr/bin/python3", 0)
