"""Weights & Biases, MLflow and TensorBoard: what each is told of a run, by its own package.

The packages are optional, and imported only where one is asked for.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from gapless.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from gapless.tracking.figures import TrackedStudy

_MLFLOW_RUN: Final = "MLFLOW_RUN_ID"  # as MLflow itself names the run to go on with


class Tracker(Struct, frozen=True):
    """A kind of tracker: the package that it needs, and how a run is logged with it.

    ``log`` gets what the user wrote behind the colon, if anything, and returns where it is.
    """

    package: str
    log: "Callable[[TrackedStudy, str | None], str]"


def check_tracker(kind: str) -> None:
    """Raise ``UsageError`` if the package of a tracker is not installed."""
    package = TRACKERS[kind].package
    if find_spec(package) is None:
        raise UsageError(
            f"--log-to {kind} needs {package}, which is not here: pip install {package}"
        )


def log_study(tracked: "TrackedStudy", kind: str, target: str | None) -> str:
    """Log to a tracker and return a sentence of where; raise ``UsageError`` where it refuses."""
    check_tracker(kind)
    return f"logged to {kind}: {TRACKERS[kind].log(tracked, target)}"


@contextmanager
def _refusing(kind: str, error_types: tuple[type[Exception], ...]) -> "Generator[None]":
    try:
        yield
    except (*error_types, OSError) as error:
        words = " ".join(str(error).split())
        raise UsageError(f"nothing was logged to {kind}: {words}") from error


def _values(tracked: "TrackedStudy") -> dict[str, float]:
    return {figure.name: figure.value for figure in tracked.figures}


def _texts(tracked: "TrackedStudy") -> Mapping[str, str]:
    texts = {"gapless.run": tracked.path, "gapless.verdict": tracked.verdict}
    texts |= {figure.name.replace("/", "."): figure.text for figure in tracked.figures}
    return {name: text for name, text in texts.items() if text}


def _log_to_wandb(tracked: "TrackedStudy", target: str | None) -> str:
    """Log to W&B: the run that WANDB_RUN_ID names, or a new one; ``target``: [ENTITY/]PROJECT."""
    wandb: Any = import_module("wandb")
    entity, _, project = (target or "").rpartition("/")
    with _refusing("wandb", (wandb.Error,)):
        is_offline = wandb.setup().settings.mode != "online"
        if not is_offline and not _is_logged_in(wandb):
            raise UsageError("nobody is logged in to wandb: wandb login, or set WANDB_MODE=offline")
        run = wandb.init(
            entity=entity or None,
            project=project or None,
            name=None if "WANDB_RUN_ID" in os.environ else tracked.run_id,
            resume="allow",
            settings=wandb.Settings(silent=True, console="off"),
        )
        run.log(_values(tracked))
        run.summary.update(_texts(tracked))
        address = run.dir if is_offline else run.url
        run.finish()
        wandb.teardown()  # only then all is on the disk
    return str(address)


def _is_logged_in(wandb: Any) -> bool:  # noqa: ANN401 - a module that need not be there
    """Return whether W&B knows who logs, without asking on the terminal."""
    if "prompt" in signature(wandb.login).parameters:
        return bool(wandb.login(prompt=False))
    return wandb.api.api_key is not None  # as older versions have it


def _log_to_mlflow(tracked: "TrackedStudy", target: str | None) -> str:
    """Log to MLflow: the run that MLFLOW_RUN_ID names, or a new one; ``target``: its server.

    The state of a run that is there already is left as it is.
    """
    mlflow: Any = import_module("mlflow")
    entities: Any = import_module("mlflow.entities")
    with _refusing("mlflow", (mlflow.exceptions.MlflowException,)):
        client = mlflow.MlflowClient(tracking_uri=target)
        run_id = os.environ.get(_MLFLOW_RUN)
        if run_id is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
            experiment = client.get_experiment_by_name(name)
            experiment_id = (
                experiment.experiment_id if experiment else client.create_experiment(name)
            )
            run_id = client.create_run(experiment_id, run_name=tracked.run_id).info.run_id
        now_ms = time.time_ns() // 10**6
        metrics = [
            entities.Metric(name, value, now_ms, tracked.step)
            for name, value in _values(tracked).items()
        ]
        tags = [entities.RunTag(name, text) for name, text in _texts(tracked).items()]
        client.log_batch(run_id, metrics=metrics, tags=tags)
        if _MLFLOW_RUN not in os.environ:
            client.set_terminated(run_id)
    return f"run {run_id}"


def _log_to_tensorboard(tracked: "TrackedStudy", target: str | None) -> str:
    """Write an events file; ``target``: its folder, else one in the run's."""
    summary: Any = import_module("tensorboard.summary")
    folder = target or str(Path(tracked.path) / "tensorboard")
    with _refusing("tensorboard", ()):
        writer = summary.Writer(folder)
        for figure in tracked.figures:
            text = tracked.verdict if figure.name == "gapless/step_ms" else figure.text
            writer.add_scalar(figure.name, figure.value, tracked.step, description=text)
        writer.close()
    return folder


TRACKERS: Final[Mapping[str, Tracker]] = {
    "wandb": Tracker("wandb", _log_to_wandb),
    "mlflow": Tracker("mlflow", _log_to_mlflow),
    "tensorboard": Tracker("tensorboard", _log_to_tensorboard),
}
