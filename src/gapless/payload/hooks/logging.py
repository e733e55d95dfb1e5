"""Loggers of experiments: each call that the training makes, as a mark at the user's line."""

from __future__ import annotations

import types
from typing import Any

from ... import wire
from .. import declare, imports, patching
from . import calls

_SPAN = "gapless:logging"
# module: (class or None for the module's own functions, names; a trailing * is a beginning)
_LOGGERS = (
    ("torch.utils.tensorboard.writer", "SummaryWriter", ("add_*", "flush")),
    ("tensorboardX.writer", "SummaryWriter", ("add_*", "flush")),
    ("wandb.sdk.wandb_run", "Run", ("log", "log_artifact", "save")),
    ("mlflow", None, ("log_*",)),
    ("mlflow.tracking.fluent", None, ("log_*",)),
    ("tqdm.std", "tqdm", ("refresh",)),
    ("aim.sdk.run", "Run", ("track", "log_*")),
    ("comet_ml.experiment", "BaseExperiment", ("log_*",)),
    ("comet_ml.experiment", "CometExperiment", ("log_*",)),
)


@declare.at_install
def _watch() -> None:
    for module, owner, names in _LOGGERS:
        imports.when_imported(module, _action(owner, names))


def _action(owner: Any, names: Any) -> Any:
    def action(module: Any) -> None:
        holder = module if owner is None else getattr(module, owner, None)
        if holder is None:
            return
        make = calls.around_outermost(wire.LOGGING, "logging", _SPAN)
        for name in _match_names(vars(holder), names):
            patching.replace(holder, name, make)

    return action


def _match_names(attributes: Any, names: Any) -> Any:
    """Return the names of the plain functions that are meant."""
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return [
        name
        for name, value in list(attributes.items())
        if isinstance(value, types.FunctionType)
        and (name in exact or name.startswith(prefixes or ("\0",)))
    ]
