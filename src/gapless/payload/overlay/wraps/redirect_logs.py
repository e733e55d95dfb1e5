"""redirect-logs: what a training's loggers would send, or write elsewhere, stays in a folder.

Where the environment rules (``launch.trial.offline``) nothing is done here; this is for what the
script says in its code. TensorBoard's event files go to the folder; wandb, neptune and swanlab go
offline; mlflow has its store there; comet's online experiments are disabled. For both sides of a
trial.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from ..patch import edit_counters, multi_patch, signatures, targets

TARGET = "loggers"
_OFFLINE_MODES = ("disabled", "offline", "dryrun", "debug", "read-only", "local")
_CLIENT = ("mlflow.tracking.client", "MlflowClient")
# module and class, function, argument, what it gets (by its name here), values that stay
_REDIRECTIONS = (
    (("torch.utils.tensorboard.writer", "SummaryWriter"), "__init__", "log_dir", "events", ()),
    (("tensorboardX.writer", "SummaryWriter"), "__init__", "logdir", "events", ()),
    (("wandb", None), "init", "mode", "offline", (None, *_OFFLINE_MODES)),
    (("neptune", None), "init_run", "mode", "offline", (None, *_OFFLINE_MODES)),
    (("swanlab", None), "init", "mode", "offline", (None, *_OFFLINE_MODES)),
    (("mlflow", None), "set_tracking_uri", "uri", "tracking", ()),
    (("mlflow", None), "set_registry_uri", "uri", "tracking", ()),
    (_CLIENT, "__init__", "tracking_uri", "tracking", (None,)),
    (_CLIENT, "__init__", "registry_uri", "tracking", (None,)),
    (("comet_ml", "Experiment"), "__init__", "disabled", "yes", ()),
    (("comet_ml", "ExistingExperiment"), "__init__", "disabled", "yes", ()),
    (("comet_ml", None), "start", "online", "no", ()),
)


class _Folders:
    """Folders for event files, a new one for each writer."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.count = 0

    def new(self, old: Any) -> str:
        """Return the folder in place of another one."""
        self.count += 1
        name = os.path.basename(os.path.normpath(str(old))) if old else "events"
        return os.path.join(self.folder, "tensorboard", f"{name}-{os.getpid()}-{self.count}")


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "folder", "tracking" (a URI of mlflow's). Return what reverts it."""
    options = edit["options"]
    values = {
        "events": _Folders(options["folder"]).new,
        "tracking": lambda _old: options["tracking"],
        "offline": lambda _old: "offline",
        "yes": lambda _old: True,
        "no": lambda _old: False,
    }
    replacements = multi_patch.Replacements(number, TARGET)
    for owner_names, function, argument, value, kept_values in _REDIRECTIONS:
        redirection = _Redirection(number, argument, values[value], kept_values)
        replacements.replace(owner_names, (function,), redirection.make)
    return replacements.off


class _Redirection:
    """One argument of a function that gets another value."""

    def __init__(self, number: int, name: str, give: Any, kept_values: Any) -> None:
        self.number, self.name, self.give, self.kept = number, name, give, kept_values

    def make(self, original: Any, switch: targets.Switch) -> Any:
        """Return the function with it. Raises ``ValueError`` if it has no such argument."""
        signatures.Argument(original, self.name, None)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            argument = signatures.Argument(original, self.name, None)
            old = argument.get(args, kwargs)
            if not switch.on or old in self.kept:
                return original(*args, **kwargs)
            argument.value = self.give(old)
            edit_counters.record_effect(self.number, f"{TARGET}: {self.name}", old, argument.value)
            args, kwargs = argument.put(args, kwargs)
            return original(*args, **kwargs)

        return call
