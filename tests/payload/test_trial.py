"""An arm of a trial: alike in all draws, looked at, and left at its planned step."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from gapless import wire
from gapless.launch.environment import RecorderSettings, build_environment
from gapless.model.edit import SetArgument, SetGlobal, edit_to_json
from gapless.model.recording import ArmObservation, Process
from gapless.store.logs.framing import read_frames
from gapless.store.logs.logs import read_processes
from tests.payload.watching import PLAIN, script_command

STOP = 24
PLAN = {"stop": STOP, "seconds": 60, "seed": 7, "losses": 30, "batches": 8, "close": True}
EDITS = (
    SetArgument("torch.optim.Optimizer.zero_grad", "set_to_none", value=True),
    SetArgument("torch.optim.NoSuchThing", "fused", value=True),
    SetArgument("torch.optim.SGD", "no_such_thing", value=True),
    SetGlobal("torch.backends.cudnn.benchmark", value=True),  # before the trainings are forked
)
NAMES = (
    "plain",
    "accumulation",
    "gan",
    "no_optimizer",
    "workers",
    "repeating",
    "scaled",
    "short",
    "raising",
)
STOPPED_NAMES = NAMES[:7]
REPEATED_NAMES = ("plain", "accumulation", "gan", "workers")


class ArmOutcome(NamedTuple):
    """What came of the trainings of one arm, by name."""

    drawn: str
    codes: dict[str, int]
    printed: dict[str, str]
    trainings: dict[str, Process]
    workers: list[Process]


def run_trainings(folder: Path, names: tuple[str, ...]) -> ArmOutcome:
    spool = folder / "spool"
    spool.mkdir(parents=True)
    settings = RecorderSettings(windows=False, trial=PLAN, edits=tuple(map(edit_to_json, EDITS)))
    variables = build_environment(PLAIN, spool, settings)
    command = script_command("arms.py", str(folder), *names)
    completed = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True, timeout=240
    )
    drawn, *lines = completed.stdout.splitlines()
    words = [line.split() for line in lines]
    all_processes = [
        process
        for path in sorted(spool.glob("rank*.log"))
        for process in read_processes(path.name, read_frames(path.read_bytes()))[0]
    ]
    processes_by_pid = {process.pid: process for process in all_processes}
    return ArmOutcome(
        drawn,
        {name: int(code) for name, code, _ in words},
        {name: (folder / name).read_text() for name in names},
        {name: processes_by_pid[int(number)] for name, _, number in words},
        [process for process in all_processes if process.role == "worker"],
    )


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArmOutcome, ArmOutcome]:
    folder = tmp_path_factory.mktemp("arms")
    with ThreadPoolExecutor() as executor:
        second_arm = executor.submit(run_trainings, folder / "other", REPEATED_NAMES)
        return run_trainings(folder / "one", NAMES), second_arm.result()


@pytest.fixture(scope="module")
def arm(two_arms: tuple[ArmOutcome, ArmOutcome]) -> ArmOutcome:
    return two_arms[0]


def observation_of(arm: ArmOutcome, name: str) -> ArmObservation:
    observation = arm.trainings[name].trial
    assert observation is not None, arm.printed[name]
    return observation


def count_steps(arm: ArmOutcome, name: str) -> list[int]:
    """Count the steps of each optimizer."""
    marks = arm.trainings[name].marks
    subjects = marks.subject[marks.kind == wire.STEP].tolist()
    return sorted(subjects.count(subject) for subject in set(subjects))


def test_each_leaves_at_the_planned_step_with_success(arm: ArmOutcome) -> None:
    assert {name: arm.codes[name] for name in STOPPED_NAMES} == dict.fromkeys(STOPPED_NAMES, 0)
    assert {arm.trainings[name].end_kind for name in STOPPED_NAMES} == {"trial"}
    assert {observation_of(arm, name).stopped for name in STOPPED_NAMES} == {STOP}
    assert (
        count_steps(arm, "plain")
        == count_steps(arm, "workers")
        == count_steps(arm, "accumulation")
        == [STOP]
    )
    assert count_steps(arm, "gan") == [STOP, 2 * STOP], "its cycle is the step"
    assert count_steps(arm, "no_optimizer") == []


def test_how_often_an_edit_took_effect_is_exact_however_a_training_ends(arm: ArmOutcome) -> None:
    for name, times in (("plain", STOP), ("short", 11), ("raising", 8)):
        times_by_edit = {
            fact.values["edit"]: fact.values["times"]
            for fact in arm.trainings[name].facts
            if fact.noun == "edit"
        }
        assert times_by_edit == {0: times, 1: 0, 2: 0, 3: 1}, name


def test_a_worker_does_not_count_what_took_effect_in_the_training(arm: ArmOutcome) -> None:
    edit_counts = {
        (fact.values["edit"], fact.values["times"])
        for worker in arm.workers
        for fact in worker.facts
        if fact.noun == "edit"
    }
    assert edit_counts == {(number, 0) for number in range(len(EDITS))}


def test_each_edit_that_could_not_be_made_says_why(arm: ArmOutcome) -> None:
    reasons = {
        note.what: note.why for note in arm.trainings["plain"].unobserved if "edit" in note.what
    }
    assert reasons.keys() == {"edit 1", "edit 2"}
    assert reasons["edit 1"] == "torch.optim.NoSuchThing: there is no such thing"
    assert "there is no argument 'no_such_thing'" in reasons["edit 2"]


def test_nothing_of_the_users_runs_afterwards_and_what_was_printed_is_there(
    arm: ArmOutcome,
) -> None:
    assert arm.printed["plain"] == "begun\n"


def test_a_training_that_ends_before_ends_as_it_does(arm: ArmOutcome) -> None:
    assert (arm.codes["short"], arm.codes["raising"]) == (3, 1)
    assert arm.printed["raising"] == "it gave up\n"
    assert observation_of(arm, "short").stopped is observation_of(arm, "raising").stopped is None
    assert len(observation_of(arm, "short").losses) == 8, "what was seen is told"
    assert (arm.trainings["short"].end_kind, arm.trainings["raising"].end_kind) == (
        "os._exit",
        "exit",
    )


def test_losses_are_those_of_the_first_backward_passes(arm: ArmOutcome) -> None:
    assert len(observation_of(arm, "plain").losses) == STOP
    assert len(observation_of(arm, "accumulation").losses) == PLAN["losses"], (
        "no more than asked for"
    )
    assert observation_of(arm, "no_optimizer").losses == ()
    assert not observation_of(arm, "plain").scaled
    assert observation_of(arm, "scaled").scaled
    ratio = observation_of(arm, "scaled").losses[0] / observation_of(arm, "plain").losses[0]
    assert ratio == pytest.approx(65536), "one started as the other: a scaled loss stays scaled"


def test_two_arms_draw_alike_and_their_losses_are_the_same_to_the_bit(
    two_arms: tuple[ArmOutcome, ArmOutcome],
) -> None:
    first_arm, second_arm = two_arms
    assert first_arm.drawn == second_arm.drawn
    for name in REPEATED_NAMES:
        assert observation_of(first_arm, name).losses == observation_of(second_arm, name).losses
        assert len(set(observation_of(first_arm, name).losses)) > 20, (
            "they are not all the same anyway"
        )
        assert observation_of(first_arm, name).indices == observation_of(second_arm, name).indices


def test_indices_are_told_in_the_order_handed_over(arm: ArmOutcome) -> None:
    for name in ("plain", "workers"):
        (batches,) = observation_of(arm, name).indices.values()
        assert [(batch.epoch, batch.count, batch.distinct) for batch in batches] == [
            (index // 8, 8, 8 * (index % 8 + 1)) for index in range(STOP)
        ]
        assert len({batch.checksum for batch in batches}) == STOP, "each epoch has its own order"


def test_an_iterable_that_is_not_shared_among_workers_shows_its_repeats(arm: ArmOutcome) -> None:
    sampled_batches = next(iter(observation_of(arm, "repeating").samples.values()))
    assert len(sampled_batches) == PLAN["batches"]
    samples = [sample for batch in sampled_batches for sample in batch.samples]
    assert (len(samples), len(set(samples))) == (64, 32)


def test_workers_are_ended_before_and_how_long_it_took_is_marked(arm: ArmOutcome) -> None:
    marks = arm.trainings["workers"].marks
    is_close = marks.kind == wire.CLOSE
    last_end = marks.end[marks.kind == wire.STEP].max()
    assert is_close.sum() == 1
    assert (marks.start[is_close] > last_end).all()
    assert {worker.end_kind for worker in arm.workers} == {"os._exit"}, "none was killed"


def test_generators_and_the_hashes_of_strings_are_seeded_before_the_training_draws(
    tmp_path: Path,
) -> None:
    code = "import random; print(random.random(), hash('a'))"

    def draw_numbers(settings: RecorderSettings, **extra: str) -> str:
        variables = build_environment({**PLAIN, **extra}, tmp_path, settings)
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, env=variables, text=True)

    trial = RecorderSettings(trial=PLAN)
    assert draw_numbers(trial) == draw_numbers(trial)
    assert draw_numbers(trial) != draw_numbers(trial, RANK="1"), "each rank draws its own"
    assert (
        draw_numbers(RecorderSettings()).split()[0] != draw_numbers(RecorderSettings()).split()[0]
    )
    assert draw_numbers(trial, PYTHONHASHSEED="5").split()[1] != draw_numbers(trial).split()[1]


def test_variables_are_edited_before_the_command_starts(tmp_path: Path) -> None:
    edits = (
        {"kind": "set_env", "name": "ONE", "value": "1"},
        {"kind": "set_env", "name": "TWO", "value": None},
        {"kind": "skip", "target": "torch.save", "every": None, "where": None},
    )
    variables = build_environment(
        {"TWO": "2", "THREE": "3"}, tmp_path, RecorderSettings(edits=edits)
    )
    assert {name: variables.get(name) for name in ("ONE", "TWO", "THREE")} == {
        "ONE": "1",
        "TWO": None,
        "THREE": "3",
    }
    assert os.environ.get("ONE") is None
