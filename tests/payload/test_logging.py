"""Loggers of experiments as marks: ``hooks/logging.py``."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gapless import wire
from tests.payload import hooking

SOURCES = {
    "tensorboardX/__init__.py": "from .writer import SummaryWriter\n",
    "tensorboardX/writer.py": """
import warnings
class SummaryWriter:
    def __init__(self):
        self.values = []
    def add_scalar(self, tag, value):
        self.values.append((tag, value))
        return len(self.values)
    def add_scalars(self, tag, values):
        for name, value in values.items():
            self.add_scalar(tag + name, value)
    def add_old(self):
        warnings.warn("old", DeprecationWarning, stacklevel=2)
    def add_nothing(self):
        raise KeyError("nothing")
    def get_logdir(self):
        return "runs"
""",
    "wandb/__init__.py": "from .sdk.wandb_run import Run\ndef init():\n    global log\n"
    "    run = Run()\n    log = run.log\n    return run\n",
    "wandb/sdk/__init__.py": "",
    "wandb/sdk/wandb_run.py": "class Run:\n    def log(self, data):\n        return data\n",
    "mlflow/__init__.py": "from mlflow.tracking.fluent import log_metric, log_params\n"
    "import mlflow.tracking\n",
    "mlflow/tracking/__init__.py": "from mlflow.tracking.fluent import log_metric\n",
    "mlflow/tracking/fluent.py": "def log_metric(key, value):\n    return key\n"
    "def log_params(values):\n    return [log_metric(*pair) for pair in values.items()]\n",
    "tqdm/__init__.py": "from .std import tqdm\n",
    "tqdm/std.py": "class tqdm:\n    def refresh(self):\n        return True\n"
    "    def update(self, n=1):\n        return self.refresh()\n",
}


@pytest.fixture
def loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    for name in [
        module_name
        for module_name in sys.modules
        if module_name.split(".")[0] in {"tqdm", "wandb", "mlflow"}
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def import_fresh(name: str) -> ModuleType:
    forget(name)
    return importlib.import_module(name)


def forget(name: str) -> None:
    for module_name in [
        module_name for module_name in sys.modules if module_name.split(".")[0] == name
    ]:
        del sys.modules[module_name]


@pytest.mark.usefixtures("loggers")
def test_each_outermost_call_is_a_mark_at_the_users_line() -> None:
    with hooking.install_hooks("logging") as recorder:
        writer = import_fresh("tensorboardX").SummaryWriter()
        assert writer.add_scalar("loss", 1.0) == 1
        writer.add_scalars("all", {"a": 1, "b": 2})
        assert writer.get_logdir() == "runs"
    assert writer.values == [("loss", 1.0), ("alla", 1), ("allb", 2)]
    marks = recorder.marks_of(wire.LOGGING)
    assert len(marks) == 2
    lines = [recorder.sites[mark.subject] for mark in marks]
    assert [location[0] for location in lines] == [__file__, __file__]
    assert lines[1][1] == lines[0][1] + 1


@pytest.mark.usefixtures("loggers")
def test_what_a_logger_raises_and_warns_of_is_as_without_us() -> None:
    def errors_and_warnings(writer: ModuleType) -> tuple[list[str], list[tuple[str, int, str]]]:
        return hooking.traceback_of(writer.add_nothing), hooking.warnings_of(writer.add_old)

    plain = errors_and_warnings(import_fresh("tensorboardX").SummaryWriter())
    forget("tensorboardX")
    with hooking.install_hooks("logging") as recorder:
        observed = errors_and_warnings(import_fresh("tensorboardX").SummaryWriter())
    assert plain[1][0][0] == hooking.__file__  # whose line calls
    assert observed == plain
    assert [mark.flags for mark in recorder.marks_of(wire.LOGGING)] == [wire.RAISED, 0]


@pytest.mark.usefixtures("loggers")
def test_the_global_log_of_wandb_is_seen() -> None:
    with hooking.install_hooks("logging") as recorder:
        wandb = import_fresh("wandb")
        wandb.init()
        assert wandb.log({"a": 1}) == {"a": 1}
    assert len(recorder.marks_of(wire.LOGGING)) == 1


@pytest.mark.usefixtures("loggers")
def test_a_function_that_two_modules_know_is_one_mark() -> None:
    with hooking.install_hooks("logging") as recorder:
        mlflow = import_fresh("mlflow")
        assert mlflow.log_metric is mlflow.tracking.fluent.log_metric
        mlflow.log_metric("a", 1)
        mlflow.tracking.fluent.log_params({"a": 1, "b": 2})
    assert len(recorder.marks_of(wire.LOGGING)) == 2


@pytest.mark.usefixtures("loggers")
def test_what_was_replaced_is_put_back() -> None:
    plain: type = import_fresh("tqdm").tqdm
    before = dict(vars(plain))
    with hooking.install_hooks("logging") as recorder:
        assert vars(plain)["refresh"] is not before["refresh"]
        assert plain().update() is True
    assert len(recorder.marks_of(wire.LOGGING)) == 1
    assert dict(vars(plain)) == before
