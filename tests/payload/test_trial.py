"""An arm of a trial: alike in all draws, looked at, and left at its planned step."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from gapless import wire
from gapless.launch.environment import Settings, environment
from gapless.model.edit import SetArgument, SetGlobal, as_json
from gapless.model.recording import Observed, Process
from gapless.store.framing import framed
from gapless.store.logs import processes
from tests.payload.watching import PLAIN, script

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
LEFT = NAMES[:7]
AGAIN = ("plain", "accumulation", "gan", "workers")


class Seen(NamedTuple):
    """What came of the trainings of one arm, by name."""

    drawn: str
    codes: dict[str, int]
    printed: dict[str, str]
    trainings: dict[str, Process]
    workers: list[Process]


def run(folder: Path, names: tuple[str, ...]) -> Seen:
    spool = folder / "spool"
    spool.mkdir(parents=True)
    settings = Settings(windows=False, trial=PLAN, edits=tuple(map(as_json, EDITS)))
    variables = environment(PLAIN, spool, settings)
    command = script("arms.py", str(folder), *names)
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True, timeout=240
    )
    drawn, *lines = done.stdout.splitlines()
    words = [line.split() for line in lines]
    found = [
        one
        for path in sorted(spool.glob("rank*.log"))
        for one in processes(path.name, framed(path.read_bytes()))[0]
    ]
    of = {one.pid: one for one in found}
    return Seen(
        drawn,
        {name: int(code) for name, code, _ in words},
        {name: (folder / name).read_text() for name in names},
        {name: of[int(number)] for name, _, number in words},
        [one for one in found if one.role == "worker"],
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen]:
    folder = tmp_path_factory.mktemp("arms")
    with ThreadPoolExecutor() as side_by_side:
        other = side_by_side.submit(run, folder / "other", AGAIN)
        return run(folder / "one", NAMES), other.result()


@pytest.fixture(scope="module")
def arm(both: tuple[Seen, Seen]) -> Seen:
    return both[0]


def observed(arm: Seen, name: str) -> Observed:
    found = arm.trainings[name].trial
    assert found is not None, arm.printed[name]
    return found


def steps(arm: Seen, name: str) -> list[int]:
    """Count the steps of each optimizer."""
    marks = arm.trainings[name].marks
    subjects = marks.subject[marks.kind == wire.STEP].tolist()
    return sorted(subjects.count(one) for one in set(subjects))


def test_each_leaves_at_the_planned_step_with_success(arm: Seen) -> None:
    assert {name: arm.codes[name] for name in LEFT} == dict.fromkeys(LEFT, 0)
    assert {arm.trainings[name].how for name in LEFT} == {"trial"}
    assert {observed(arm, name).stopped for name in LEFT} == {STOP}
    assert steps(arm, "plain") == steps(arm, "workers") == steps(arm, "accumulation") == [STOP]
    assert steps(arm, "gan") == [STOP, 2 * STOP], "its cycle is the step"
    assert steps(arm, "no_optimizer") == []


def test_how_often_an_edit_took_effect_is_exact_however_a_training_ends(arm: Seen) -> None:
    for name, times in (("plain", STOP), ("short", 11), ("raising", 8)):
        told = {
            fact.values["edit"]: fact.values["times"]
            for fact in arm.trainings[name].facts
            if fact.noun == "edit"
        }
        assert told == {0: times, 1: 0, 2: 0, 3: 1}, name


def test_a_worker_does_not_count_what_took_effect_in_the_training(arm: Seen) -> None:
    told = {
        (fact.values["edit"], fact.values["times"])
        for worker in arm.workers
        for fact in worker.facts
        if fact.noun == "edit"
    }
    assert told == {(number, 0) for number in range(len(EDITS))}


def test_each_edit_that_could_not_be_made_says_why(arm: Seen) -> None:
    unseen = {one.what: one.why for one in arm.trainings["plain"].unseen if "edit" in one.what}
    assert unseen.keys() == {"edit 1", "edit 2"}
    assert unseen["edit 1"] == "torch.optim.NoSuchThing: there is no such thing"
    assert "there is no argument 'no_such_thing'" in unseen["edit 2"]


def test_nothing_of_the_users_runs_afterwards_and_what_was_printed_is_there(arm: Seen) -> None:
    assert arm.printed["plain"] == "begun\n"


def test_a_training_that_ends_before_ends_as_it_does(arm: Seen) -> None:
    assert (arm.codes["short"], arm.codes["raising"]) == (3, 1)
    assert arm.printed["raising"] == "it gave up\n"
    assert observed(arm, "short").stopped is observed(arm, "raising").stopped is None
    assert len(observed(arm, "short").losses) == 8, "what was seen is told"
    assert (arm.trainings["short"].how, arm.trainings["raising"].how) == ("os._exit", "exit")


def test_losses_are_those_of_the_first_backward_passes(arm: Seen) -> None:
    assert len(observed(arm, "plain").losses) == STOP
    assert len(observed(arm, "accumulation").losses) == PLAN["losses"], "no more than asked for"
    assert observed(arm, "no_optimizer").losses == ()
    assert not observed(arm, "plain").scaled
    assert observed(arm, "scaled").scaled
    ratio = observed(arm, "scaled").losses[0] / observed(arm, "plain").losses[0]
    assert ratio == pytest.approx(65536), "one started as the other: a scaled loss stays scaled"


def test_two_arms_draw_alike_and_their_losses_are_the_same_to_the_bit(
    both: tuple[Seen, Seen],
) -> None:
    one, other = both
    assert one.drawn == other.drawn
    for name in AGAIN:
        assert observed(one, name).losses == observed(other, name).losses
        assert len(set(observed(one, name).losses)) > 20, "they are not all the same anyway"
        assert observed(one, name).indices == observed(other, name).indices


def test_indices_are_told_in_the_order_handed_over(arm: Seen) -> None:
    for name in ("plain", "workers"):
        (drawn,) = observed(arm, name).indices.values()
        assert [(one.epoch, one.count, one.distinct) for one in drawn] == [
            (at // 8, 8, 8 * (at % 8 + 1)) for at in range(STOP)
        ]
        assert len({one.checksum for one in drawn}) == STOP, "each epoch has its own order"


def test_an_iterable_that_is_not_shared_among_workers_shows_its_repeats(arm: Seen) -> None:
    seen = next(iter(observed(arm, "repeating").samples.values()))
    assert len(seen) == PLAN["batches"]
    first = [sample for batch in seen for sample in batch.samples]
    assert (len(first), len(set(first))) == (64, 32)


def test_workers_are_ended_before_and_how_long_it_took_is_marked(arm: Seen) -> None:
    marks = arm.trainings["workers"].marks
    closed = marks.kind == wire.CLOSE
    last = marks.end[marks.kind == wire.STEP].max()
    assert closed.sum() == 1
    assert (marks.start[closed] > last).all()
    assert {one.how for one in arm.workers} == {"os._exit"}, "none was killed"


def test_generators_and_the_hashes_of_strings_are_seeded_before_the_training_draws(
    tmp_path: Path,
) -> None:
    code = "import random; print(random.random(), hash('a'))"

    def drawn(settings: Settings, **more: str) -> str:
        variables = environment({**PLAIN, **more}, tmp_path, settings)
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, env=variables, text=True)

    trial = Settings(trial=PLAN)
    assert drawn(trial) == drawn(trial)
    assert drawn(trial) != drawn(trial, RANK="1"), "each rank draws its own"
    assert drawn(Settings()).split()[0] != drawn(Settings()).split()[0]
    assert drawn(trial, PYTHONHASHSEED="5").split()[1] != drawn(trial).split()[1]


def test_variables_are_edited_before_the_command_starts(tmp_path: Path) -> None:
    edits = (
        {"kind": "set_env", "name": "ONE", "value": "1"},
        {"kind": "set_env", "name": "TWO", "value": None},
        {"kind": "skip", "target": "torch.save", "every": None, "where": None},
    )
    made = environment({"TWO": "2", "THREE": "3"}, tmp_path, Settings(edits=edits))
    assert {name: made.get(name) for name in ("ONE", "TWO", "THREE")} == {
        "ONE": "1",
        "TWO": None,
        "THREE": "3",
    }
    assert os.environ.get("ONE") is None
