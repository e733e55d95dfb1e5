"""What a training says of itself: left out, said more rarely, kept from services."""

from __future__ import annotations

import builtins
import importlib
import io
import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from gapless.model.edit import Wrap
from tests.payload.laying import apply_edits

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_LOGGING = Wrap("logging", "no-logging")


def make_cadence(period: int) -> Wrap:
    return Wrap("logging", "cadence", {"what": "logging", "every": period})


LOGGERS = {
    "tensorboardX/__init__.py": "from .writer import SummaryWriter\n",
    "tensorboardX/writer.py": """
class SummaryWriter:
    def __init__(self, logdir=None, comment=""):
        self.logdir, self.values = logdir, []
    def add_scalar(self, tag, value, step=None):
        self.values.append((tag, value))
    def close(self):
        self.values.append("closed")
""",
    "wandb/__init__.py": """
from .sdk.wandb_run import Run
def init(project=None, mode=None, **more):
    run = Run()
    run.mode = mode
    return run
""",
    "wandb/sdk/__init__.py": "",
    "wandb/sdk/wandb_run.py": """
class Run:
    def __init__(self):
        self.rows = []
    def log(self, data, step=None):
        self.rows.append(data)
    def log_artifact(self, thing):
        return thing
""",
    "mlflow/__init__.py": """
from mlflow.tracking.fluent import log_metric, log_param
import mlflow.tracking.client
ASKED = []
def set_tracking_uri(uri):
    ASKED.append(uri)
""",
    "mlflow/tracking/__init__.py": "",
    "mlflow/tracking/fluent.py": """
ROWS = []
def log_metric(key, value, step=None):
    ROWS.append((key, value))
def log_param(key, value):
    return value
""",
    "mlflow/tracking/client.py": """
class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        self.uris = tracking_uri, registry_uri
""",
    "comet_ml/__init__.py": """
class Experiment:
    def __init__(self, api_key=None, disabled=False):
        self.disabled = disabled
def start(api_key=None, *, online=None):
    return online
""",
    "tqdm/__init__.py": "from .std import tqdm\n",
    "tqdm/std.py": """
class tqdm:
    shown = written = 0
    def refresh(self):
        self.shown += 1
        return True
    @classmethod
    def write(cls, text):
        tqdm.written += 1
    def update(self, n=1):
        return self.refresh()
""",
}


@pytest.fixture
def loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have loggers that look like the ones people use, as far as we touch them."""
    packages = {name.split("/")[0] for name in LOGGERS}
    for name in [
        module_name for module_name in sys.modules if module_name.split(".")[0] in packages
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name, source in LOGGERS.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in [
        module_name for module_name in sys.modules if module_name.split(".")[0] in packages
    ]:
        del sys.modules[name]


def import_named(name: str) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(name)


def make_optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)


def test_what_is_printed_and_logged_once_there_is_an_optimizer_is_not_said(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("training")
    before, before_log = builtins.print, vars(logging.Logger)["_log"]
    file = io.StringIO()
    caplog.set_level(logging.INFO)
    with apply_edits(NO_LOGGING) as edit_log:
        print("starting")
        make_optimizer()
        print("loss", 0.5)
        print("loss", 0.5, file=sys.stderr)
        print("data", file=file)
        log.info("loss %s", 0.5)
        log.error("broken")
        assert edit_log.times() == 3
        assert edit_log.values[0]["target"] == "logging"
    assert builtins.print is before
    assert vars(logging.Logger)["_log"] is before_log
    print("after")
    assert capsys.readouterr() == ("starting\nafter\n", "")
    assert file.getvalue() == "data\n"
    assert [record.message for record in caplog.records] == ["broken"]


@pytest.mark.usefixtures("loggers")
def test_loggers_of_experiments_get_nothing_whatever_way_they_are_called() -> None:
    with apply_edits(NO_LOGGING) as edit_log:
        mlflow, tensorboard_x, wandb = map(import_named, ("mlflow", "tensorboardX", "wandb"))
        rows, tqdm = import_named("mlflow.tracking.fluent").ROWS, import_named("tqdm").tqdm
        writer, run, bar = tensorboard_x.SummaryWriter(), wandb.init(), tqdm()
        edited_log = import_named("wandb.sdk.wandb_run").Run.log
        log = run.log
        make_optimizer()
        writer.add_scalar("loss", 1.0)
        log({"loss": 1.0})
        mlflow.log_metric("loss", 1.0)
        bar.update()
        tqdm.write("line")
        assert (writer.values, run.rows, rows, bar.shown, tqdm.written) == ([], [], [], 0, 0)
        assert edit_log.times() == 5
        assert run.log_artifact("kept") == "kept"  # whose results are used
        assert mlflow.log_param("lr", 0.1) == 0.1
        writer.close()
        assert writer.values == ["closed"]
    run.log({"loss": 2.0})
    writer.add_scalar("loss", 2.0)
    assert (run.rows, writer.values[1:]) == ([{"loss": 2.0}], [("loss", 2.0)])
    assert import_named("wandb.sdk.wandb_run").Run.log is not edited_log
    assert edit_log.unobserved == []


def test_each_line_says_only_each_third_time(capsys: pytest.CaptureFixture[str]) -> None:
    with apply_edits(make_cadence(3)) as edit_log:
        make_optimizer()
        for step in range(7):
            print("a", step)
            print("b", step)
        assert edit_log.times() == 10
    assert capsys.readouterr().out.splitlines() == ["a 2", "b 2", "a 5", "b 5"]


def test_a_traceback_is_printed_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with apply_edits(NO_LOGGING):
        make_optimizer()
        try:
            int("out of luck")
        except ValueError:
            traceback.print_exc()
    assert "out of luck" in capsys.readouterr().err


@pytest.mark.usefixtures("loggers")
def test_loggers_are_kept_from_their_services_whatever_the_script_says(tmp_path: Path) -> None:
    options = {"folder": str(tmp_path / "logs"), "tracking": "file:///logs/mlruns"}
    with apply_edits(Wrap("logging", "redirect-logs", options)) as edit_log:
        comet_ml, mlflow, tensorboard_x, wandb = map(
            import_named, ("comet_ml", "mlflow", "tensorboardX", "wandb")
        )
        first_writer, second_writer = (
            tensorboard_x.SummaryWriter("/runs/a"),
            tensorboard_x.SummaryWriter(),
        )
        assert Path(first_writer.logdir).parent == tmp_path / "logs" / "tensorboard"
        assert Path(first_writer.logdir).name.startswith("a-")
        assert first_writer.logdir != second_writer.logdir
        assert wandb.init(mode="online").mode == "offline"
        assert wandb.init(mode="disabled").mode == "disabled"
        assert wandb.init().mode is None  # the environment rules
        mlflow.set_tracking_uri("http://server:5000")
        assert [options["tracking"]] == mlflow.ASKED
        client = mlflow.tracking.client.MlflowClient(tracking_uri="http://server:5000")
        assert client.uris == (options["tracking"], None)
        assert comet_ml.Experiment("key").disabled
        assert comet_ml.start(online=True) is False
        assert edit_log.times() == 7
        assert edit_log.unobserved == []
    assert tensorboard_x.SummaryWriter("/runs/a").logdir == "/runs/a"
    assert wandb.init(mode="online").mode == "online"
    assert not comet_ml.Experiment("key").disabled
