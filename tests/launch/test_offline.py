"""Arms are kept from services that log experiments."""

from pathlib import Path

from gapless.launch import environment
from gapless.launch.trial import offline
from gapless.model.edit import SetEnv, Wrap, edit_to_json


def test_loggers_go_offline_and_write_into_the_folder(tmp_path: Path) -> None:
    variables = offline.variables({"HOME": "/home/me"}, tmp_path)
    assert variables["WANDB_MODE"] == variables["NEPTUNE_MODE"] == "offline"
    assert variables["WANDB_DIR"] == str(tmp_path)
    assert variables["MLFLOW_TRACKING_URI"] == f"file://{tmp_path}/mlruns"
    assert variables["COMET_START_ONLINE"] == "0"
    assert "HF_HUB_OFFLINE" not in variables  # a training that fetches its model must go on
    assert None not in variables.values()


def test_what_is_off_already_stays_off_and_no_run_of_a_servers_is_gone_on_with(
    tmp_path: Path,
) -> None:
    old = {"WANDB_MODE": "disabled", "NEPTUNE_MODE": "async", "MLFLOW_RUN_ID": "4711"}
    variables = offline.variables(old, tmp_path)
    assert "WANDB_MODE" not in variables
    assert variables["NEPTUNE_MODE"] == "offline"
    assert variables["MLFLOW_RUN_ID"] is None


def test_the_same_as_edits_reaches_the_environment_of_an_arm(tmp_path: Path) -> None:
    old = {"WANDB_MODE": "online", "MLFLOW_RUN_ID": "4711", "HOME": "/home/me"}
    edits = offline.edits(old, tmp_path)
    assert SetEnv("WANDB_MODE", "offline") in edits
    env = environment.apply_env_edits(old, [edit_to_json(edit) for edit in edits])
    assert env["WANDB_MODE"] == "offline"
    assert "MLFLOW_RUN_ID" not in env
    assert env["HOME"] == "/home/me"
    (wrap,) = [edit for edit in edits if isinstance(edit, Wrap)]
    assert wrap.part == "redirect-logs"
    assert wrap.options["folder"] == str(tmp_path)


def test_makes_the_folder_that_loggers_need(tmp_path: Path) -> None:
    offline.make(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    offline.make(tmp_path / "a" / "b")
