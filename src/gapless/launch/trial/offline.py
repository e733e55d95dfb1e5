"""Keep arms from the services that log experiments: what they would send stays in a folder.

Variables of the environment where the loggers heed them, and a wrap (``redirect-logs``) for
what the script says in its code. Both sides of a trial get the same. Downloads go on (no
``HF_HUB_OFFLINE``): a training that fetches its model would break. What is sent in other ways is
for ``launch.trial.side_effects``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gapless.model.edit import Edit, SetEnv, Wrap

_QUIET_MODES: Final = frozenset({"disabled", "offline", "dryrun", "debug", "read-only", "local"})
# offline, unless as quiet already
_MODE_VARIABLES: Final = ("WANDB_MODE", "NEPTUNE_MODE", "SWANLAB_MODE")
_FIXED_VARIABLES: Final = {
    "COMET_START_ONLINE": "0",  # of comet_ml.start(); Experiment() is the wrap's
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # which mlflow 3 otherwise refuses
    "DVC_STUDIO_OFFLINE": "true",
    "DVC_EXP_AUTO_PUSH": "false",
}
# A run that is to be gone on with is known to the server alone.
_REMOVED_VARIABLES: Final = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "NEPTUNE_CUSTOM_RUN_ID")


def variables(old: Mapping[str, str], folder: Path) -> dict[str, str | None]:
    """Return what the environment of an arm is to say; ``None``: the variable is not to be there.

    ``folder``: where the loggers write. One whose variable says that it is off already stays so.
    """
    modes = {
        name: "offline" for name in _MODE_VARIABLES if old.get(name, "").lower() not in _QUIET_MODES
    }
    folders = {
        "WANDB_DIR": str(folder),
        "WANDB_DATA_DIR": str(folder),
        "MLFLOW_TRACKING_URI": _tracking_uri(folder),
        "MLFLOW_REGISTRY_URI": _tracking_uri(folder),
        "COMET_OFFLINE_DIRECTORY": str(folder),
        "SWANLAB_LOG_DIR": str(folder),
    }
    return {
        **modes,
        **folders,
        **_FIXED_VARIABLES,
        **{name: None for name in _REMOVED_VARIABLES if name in old},
    }


def edits(old: Mapping[str, str], folder: Path) -> tuple[Edit, ...]:
    """Return the same as edits, and what the environment cannot say: to be applied in all arms."""
    options = {"folder": str(folder), "tracking": _tracking_uri(folder)}
    return (
        *(SetEnv(name, value) for name, value in variables(old, folder).items()),
        Wrap("logging", "redirect-logs", options),
    )


def make(folder: Path) -> None:
    """Make the folder that the loggers write into. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)  # wandb takes a temporary one where it is missing


def _tracking_uri(folder: Path) -> str:
    return (folder.absolute() / "mlruns").as_uri()
