"""no-logging: what a training says of itself is not said; or every n-th time a line says it.

``print`` to the terminal, records of ``logging`` and loguru below ERROR, refreshes of tqdm and
rich, and what sends values to TensorBoard, wandb, mlflow, comet and aim. It begins when an
optimizer is made, so that what starts a training says all it has to say. Only the calls do
nothing: what is passed to them was computed before, and ``loss.item()`` waits for its device as
ever. Output through ``sys.stdout.write`` and into files goes on. An ablation, for trials.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ...stacks import locations
from .. import reapply
from ..patch import edit_counters, multi_patch, targets

TARGET = "logging"
_ERROR = 40  # logging.ERROR
_ERRORS = ("ERROR", "CRITICAL")
_VALUES = ("log_metric", "log_metrics", "log_text", "log_image")  # whose results nobody uses
_LOGGERS = (
    (("torch.utils.tensorboard.writer", "SummaryWriter"), ("add_*", "flush")),
    (("tensorboardX.writer", "SummaryWriter"), ("add_*", "flush")),
    (("wandb.sdk.wandb_run", "Run"), ("log",)),
    (("mlflow.tracking.fluent", None), _VALUES),
    (("mlflow", None), _VALUES),
    (("tqdm.std", "tqdm"), ("refresh", "write")),
    (("rich.live", "Live"), ("refresh",)),
    (("aim.sdk.run", "Run"), ("track",)),
    (("comet_ml.experiment", "BaseExperiment"), _VALUES),
    (("comet_ml.experiment", "CometExperiment"), _VALUES),
)


class _Quiet:
    """Which calls are left out: all from when it begins, or all but every n-th of a line."""

    def __init__(self, number: int, period: Any) -> None:
        self.number, self.every = number, period
        self.on = False
        self.counts: dict[Any, int] = {}

    def begin(self) -> None:
        """Leave calls out from now on."""
        self.on = True

    def leaves_out(self) -> bool:
        """Return whether the call whose wrapper asks is to do nothing; record it if so."""
        if not self.on:
            return False
        if self.every is not None:
            caller = locations.users_frame(1) or sys._getframe(2)
            line = caller.f_code, caller.f_lineno
            self.counts[line] = self.counts.get(line, 0) + 1
            if self.counts[line] % self.every == 0:
                return False
        edit_counters.record_effect(self.number, TARGET, "said", "not said")
        return True


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; option "every": every n-th call of a line is made. Return what reverts it."""
    period = edit.get("options", {}).get("every")
    quiet = edit.setdefault("kept", _Quiet(number, period))  # it may be applied again
    replacements = multi_patch.Replacements(number, TARGET)
    replacements.replace(("builtins", None), ("print",), functools.partial(_wrap_print, quiet))
    for owner_names, is_error in _RECORDS:
        replacements.replace(owner_names, ("_log",), functools.partial(_wrap_log, quiet, is_error))
    for owner_names, names in _LOGGERS:
        replacements.replace(owner_names, names, functools.partial(_wrap_call, quiet))
    replacements.undos.append(reapply.on_moments(quiet.begin))
    return replacements.off


def _wrap_call(quiet: _Quiet, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def say(*args: Any, **kwargs: Any) -> Any:
        if switch.on and quiet.leaves_out():
            return None
        return original(*args, **kwargs)

    return say


def _wrap_log(quiet: _Quiet, is_error: Any, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def log(self: Any, level: Any, *args: Any, **kwargs: Any) -> Any:
        if switch.on and not is_error(level) and quiet.leaves_out():
            return None
        return original(self, level, *args, **kwargs)

    return log


def _is_error(level: Any) -> bool:
    return isinstance(level, int) and level >= _ERROR


def _is_logurus_error(level: Any) -> bool:
    return level in _ERRORS or _is_error(level)


_RECORDS = (
    (("logging", "Logger"), _is_error),
    (("loguru._logger", "Logger"), _is_logurus_error),
)


def _wrap_print(quiet: _Quiet, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def say(*args: Any, **kwargs: Any) -> None:
        file = kwargs.get("file")
        is_shown = file is None or file is sys.stdout or file is sys.stderr
        if switch.on and is_shown and not _tells_of_an_error() and quiet.leaves_out():
            return
        original(*args, **kwargs)

    return say


def _tells_of_an_error() -> bool:
    return sys._getframe(2).f_globals.get("__name__") == "traceback"
