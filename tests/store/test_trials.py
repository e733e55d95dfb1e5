"""Trials as files of a run's folder."""

import json
from pathlib import Path

import pytest

from gapless.errors import RunFolderError
from gapless.model.account import Account, RowAccount
from gapless.model.edit import (
    Applicability,
    Edit,
    Location,
    SetArgument,
    SetEnv,
    SetGlobal,
    Skip,
    Wrap,
)
from gapless.model.estimate import Estimate
from gapless.model.ledger import Row
from gapless.model.trial import Arm, Parity, Side, Trial, TrialVerdict
from gapless.store.run import trials

EDITS: tuple[Edit, ...] = (
    SetArgument("torch.optim.SGD", "foreach", value=True, where=Location("train.py", 3, "main")),
    SetGlobal("torch.backends.cudnn.benchmark", value=True),
    SetEnv("OMP_NUM_THREADS", None),
    Wrap("torch.utils.data.DataLoader", "cached-batch", {"device": "cuda"}),
    Skip("torch.save", every=4),
)


def make_trial(name: str = "01") -> Trial:
    row = Row(rank=0, device=0, step=3, start=0, end=10, left_out=False)
    account = Account(10, 1, {"busy.x": 10}, {"compute": 10}, {}, (RowAccount(row, {}, {}),))
    side = Side(
        name="B",
        fixes=("more-workers",),
        summary="num_workers 0 → 4",
        edits=EDITS,
        applicability=Applicability.EQUIVALENT,
        verdict=TrialVerdict.CONFIRMED,
        speedup=Estimate(4.2, 4.4, 4.6),
        job=None,
        parity=Parity.WITHIN_SPREAD,
        account=account,
    )
    arm = Arm("A", 0, None, 0, 0, None, None, None, None, None, None, failed="disturbed")
    return Trial(
        id=name,
        command=("python", "train.py"),
        run=None,
        arms=(arm,),
        order="ABBA",
        sides=(side,),
        noise=None,
        step_ns=10,
        measured=(12, 41),
        cache="warm",
        spent_s=12.5,
        notes=("a note",),
    )


def test_a_trial_comes_back_as_it_was(tmp_path: Path) -> None:
    path = trials.write(make_trial(), tmp_path)
    assert path == tmp_path / "trials" / "01.json"
    assert trials.read(path) == make_trial()
    assert [path.name for path in path.parent.iterdir()] == ["01.json"]


def test_keys_of_later_versions_are_passed_over(tmp_path: Path) -> None:
    path = trials.write(make_trial(), tmp_path)
    document = json.loads(path.read_bytes())
    document["trial"]["weather"] = "fair"
    path.write_text(json.dumps(document))
    assert trials.read(path) == make_trial()


def test_refuses_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(RunFolderError, match="is of schema 2; this gapless reads up to 1"):
        trials.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "1"}', "\x00\xff"])
def test_rubbish_is_no_trial(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(RunFolderError, match="holds no trial"):
        trials.read(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("arms",), None),
        (("step_ns",), "long"),
        (("sides", 0, "verdict"), "splendid"),
        (("sides", 0, "edits", 0, "kind"), "magic"),
        (("sides", 0, "edits", 0), {"kind": "skip"}),
        ((), None),
    ],
)
def test_a_trial_that_is_not_whole_is_told(
    tmp_path: Path, keys: tuple[str | int, ...], value: object
) -> None:
    path = trials.write(make_trial(), tmp_path)
    document = json.loads(path.read_bytes())
    node, full_keys = document, ("trial", *keys)
    for key in full_keys[:-1]:
        node = node[key]
    node[full_keys[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(RunFolderError, match="not whole"):
        trials.read(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"nothing\.json"):
        trials.read(tmp_path / "nothing.json")


def test_the_trials_of_a_run_are_those_that_can_be_read(tmp_path: Path) -> None:
    assert trials.run_trials(tmp_path) == ()
    trials.write(make_trial("02"), tmp_path)
    trials.write(make_trial("01"), tmp_path)
    (tmp_path / "trials" / "00.json").write_text("rubbish")
    assert [trial.id for trial in trials.run_trials(tmp_path)] == ["01", "02"]
