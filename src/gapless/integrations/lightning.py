"""A callback of Lightning: ``Trainer(callbacks=[GaplessCallback()])``."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
from collections.abc import Mapping
from typing import Any

from gapless.integrations.loop_recording import DEFAULT_STEPS, LoopRecording

try:
    from lightning.pytorch.callbacks import Callback
except ModuleNotFoundError:
    from pytorch_lightning.callbacks import Callback

_LOGGER = logging.getLogger(Callback.__module__.partition(".callbacks")[0])  # as its own lines


class GaplessCallback(Callback):
    """Record the first batches of a fit on the first rank of each machine, and log the verdict.

    ``steps``: batches to record; ``out``: where runs go (.gapless/runs). The account goes to the
    trainer's loggers, too, as ``gapless/…``.
    """

    def __init__(self, steps: int = DEFAULT_STEPS, out: str | None = None) -> None:
        self._steps, self._out = steps, out
        self._recording: LoopRecording | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ANN401, ARG002
        """Begin before the loaders are iterated."""
        if stage != "fit" or trainer.local_rank != 0 or self._recording is not None:
            return

        def log(figures: Mapping[str, float]) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(dict(figures), step=trainer.global_step)

        self._recording = LoopRecording(self._steps, self._out, _LOGGER.info, log)
        self._recording.begin()

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Count a batch."""
        if self._recording is not None:
            self._recording.count_step()

    def on_train_end(self, *_: object) -> None:
        """End with the training."""
        if self._recording is not None:
            self._recording.end()

    def on_exception(self, *_: object) -> None:
        """End with a training that fails."""
        self.on_train_end()
