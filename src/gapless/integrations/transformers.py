"""A callback of Transformers: ``Trainer(callbacks=[GaplessTrainerCallback()])``."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportGeneralTypeIssues=false

from typing import Any

from transformers import TrainerCallback
from transformers.utils.logging import get_logger

from gapless.integrations.loop_recording import DEFAULT_STEPS, LoopRecording

_LOGGER = get_logger("transformers.gapless")


class GaplessTrainerCallback(TrainerCallback):
    """Record the first steps of a training on the first rank of each machine, and log the verdict.

    ``steps``: steps of the optimizer to record; ``out``: where runs go (.gapless/runs).
    """

    def __init__(self, steps: int = DEFAULT_STEPS, out: str | None = None) -> None:
        self._recording = LoopRecording(steps, out, _LOGGER.warning)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401, ARG002
        """Begin."""
        if state.is_local_process_zero:
            self._recording.begin()

    def on_step_end(self, *_: object, **__: object) -> None:
        """Count a step."""
        self._recording.count_step()

    def on_train_end(self, *_: object, **__: object) -> None:
        """End with the training."""
        self._recording.end()
