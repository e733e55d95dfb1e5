"""What trackers are told of a run, and that none of them can harm it.

Those of W&B, MLflow and TensorBoard themselves run where the packages are: they bring 300 MB, so
that CI does not install them (``pip install wandb mlflow-skinny sqlalchemy alembic tensorboard``).
"""

import importlib
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest

from gapless import cli
from gapless.errors import UsageError
from gapless.model.study import Study
from gapless.study import Options, open_study
from gapless.tracking import KINDS, trackers
from gapless.tracking.figures import TrackedStudy, track_study
from tests.traces import recorded_run

ROOT: Final = Path(__file__).parents[2]
GAIN: Final = "gapless/finding/loader-in-training-process_gain"


@pytest.fixture(scope="module")
def study() -> Study:
    return open_study([recorded_run()], Options(cache=False))


@pytest.fixture(scope="module")
def tracked(study: Study) -> TrackedStudy:
    return track_study(study)


def values(tracked: TrackedStudy) -> dict[str, float]:
    return {figure.name: figure.value for figure in tracked.figures}


def test_the_figures_are_those_of_the_study(study: Study, tracked: TrackedStudy) -> None:
    figures = values(tracked)
    assert study.recorded is not None
    assert study.recorded.steps is not None
    assert figures["gapless/step_ms"] == study.recorded.steps.median_ns / 1e6
    groups = sum(value for name, value in figures.items() if "/group_ms/" in name)
    leaves = sum(value for name, value in figures.items() if "/leaf_ms/" in name)
    assert groups == pytest.approx(figures["gapless/step_mean_ms"])
    assert leaves == pytest.approx(groups)
    assert sum(value for name, value in figures.items() if "_share/" in name) == pytest.approx(1)
    assert figures[GAIN] > 2
    assert tracked.step == study.recorded.steps.count
    names = set(figures)
    assert not any(name.startswith(f"{other}/") for name in names for other in names)


def test_all_kinds_are_there() -> None:
    assert tuple(trackers.TRACKERS) == KINDS


def test_a_tracker_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trackers, "find_spec", dict[str, str]().get)
    assert cli.main(["report", str(recorded_run()), "--log-to", "wandb:team/project"]) == 2
    assert "pip install wandb" in capsys.readouterr().err
    assert cli.main(["report", str(recorded_run()), "--log-to", "comet"]) == 2
    assert "'comet' is none of wandb, mlflow, tensorboard[:TARGET]" in capsys.readouterr().err


def test_a_training_ends_as_it_would_without_its_tracker(tmp_path: Path) -> None:
    """The tracker is not there: said before and behind the training, whose exit code stays."""
    code = "import sys; print('trained', flush=True); sys.exit(3)"
    starter = (
        "import sys; from gapless.tracking import trackers; trackers.find_spec = lambda _: None;"
        "from gapless.cli import run; run()"
    )
    command = [sys.executable, "-c", starter, "run", "--log-to", "mlflow"]
    completed = subprocess.run(
        [*command, sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (completed.returncode, completed.stdout) == (3, "trained\n")
    assert "pip install mlflow; the command runs" in completed.stderr


def test_tensorboard_reads_what_was_written(tmp_path: Path, tracked: TrackedStudy) -> None:
    pytest.importorskip("tensorboard")
    module: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    assert trackers.log_study(tracked, "tensorboard", str(tmp_path)).endswith(str(tmp_path))
    events = module.EventAccumulator(str(tmp_path))
    events.Reload()
    read = {
        tag: (events.Tensors(tag)[0].tensor_proto.float_val[0], events.Tensors(tag)[0].step)
        for tag in events.Tags()["tensors"]
    }
    expected = {name: (pytest.approx(value), 60) for name, value in values(tracked).items()}
    assert read == expected
    assert "makes each batch itself" in events.SummaryMetadata(GAIN).summary_description


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_keeps_it_in_the_run_of_the_training(
    tmp_path: Path, tracked: TrackedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    target = f"file:{tmp_path}/mlruns"  # "sqlite:" takes ten seconds to begin
    client = mlflow.MlflowClient(tracking_uri=target)
    new_run = client.get_run(trackers.log_study(tracked, "mlflow", target).split()[-1])
    assert (new_run.info.status, new_run.info.run_name) == ("FINISHED", recorded_run().name)
    assert new_run.data.metrics == values(tracked)
    assert new_run.data.tags["gapless.verdict"] == tracked.verdict
    training = client.create_run("0")
    monkeypatch.setenv("MLFLOW_RUN_ID", training.info.run_id)
    trackers.log_study(tracked, "mlflow", target)
    joined_run = client.get_run(training.info.run_id)
    assert joined_run.data.metrics == values(tracked)
    assert joined_run.info.status == "RUNNING"
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    with pytest.raises(trackers.UsageError, match="nothing was logged to mlflow"):
        trackers.log_study(tracked, "mlflow", target)


def wandb_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a run that W&B keeps offline: a log as LevelDB writes it."""
    content, position, record = path.read_bytes(), 7, b""
    block, header = 32768, struct.Struct("<IHB")
    while position + header.size <= len(content):
        if block - position % block < header.size:
            position += block - position % block
            continue
        _, length, kind = header.unpack_from(content, position)
        position += header.size
        record += content[position : position + length]
        position += length
        if kind in {1, 4}:  # whole, or its last part
            yield record
            record = b""


@pytest.mark.filterwarnings("ignore")  # W&B's own
def test_wandb_keeps_it_offline(
    tmp_path: Path, tracked: TrackedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    messages: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_RUN_ID", "training7")
    trackers.log_study(tracked, "wandb", "team/project")
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    records = [messages.Record.FromString(record) for record in wandb_records(path)]
    (run,) = [record.run for record in records if record.HasField("run")]
    assert (run.run_id, run.entity, run.project) == ("training7", "team", "project")
    items = [item for record in records for item in record.history.item]
    logged = {item.key or "/".join(item.nested_key): item.value_json for item in items}
    assert {name: float(logged[name]) for name in values(tracked)} == pytest.approx(values(tracked))
    summary = str([record.summary for record in records if record.HasField("summary")])
    assert "makes each batch itself" in summary


def test_a_report_says_where_it_logged(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def log(tracked: TrackedStudy, target: str | None) -> str:
        return f"{target} {values(tracked)[GAIN]:.0f}"

    monkeypatch.setattr("gapless.study.open_job", Mock(return_value=study))
    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": trackers.Tracker("json", log)})
    assert cli.main(["report", str(recorded_run()), "--json", "--log-to", "wandb:a/b"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("{")
    assert output.err == "gapless: logged to wandb: a/b 4\n"


def test_a_tracker_that_refuses_keeps_nothing_from_the_others(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> str:
        raise UsageError("nothing was logged to mlflow: no server")

    def log(*_: object) -> str:
        return "a/b"

    monkeypatch.setattr("gapless.study.open_job", Mock(return_value=study))
    kinds = {"mlflow": trackers.Tracker("json", refuse), "wandb": trackers.Tracker("json", log)}
    monkeypatch.setattr(trackers, "TRACKERS", kinds)
    trackers_wanted = ["--log-to", "mlflow", "--log-to", "wandb:a/b"]
    assert cli.main(["report", str(recorded_run()), "--json", *trackers_wanted]) == 2
    errors = capsys.readouterr().err
    assert errors.index("logged to wandb") < errors.index("no server")


@pytest.mark.slow
def test_the_example_logs_a_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    command = [sys.executable, str(ROOT / "examples/log_to_tensorboard.py"), str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "gapless/group_share/data" in completed.stdout
    assert f"logged to tensorboard: {tmp_path}" in completed.stderr
