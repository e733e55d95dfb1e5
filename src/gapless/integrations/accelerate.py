"""A tracker of Accelerate: ``Accelerator(log_with=[GaplessTracker()])``."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import ClassVar

from accelerate.logging import get_logger
from accelerate.tracking import GeneralTracker

from gapless.integrations.loop_recording import DEFAULT_STEPS, LoopRecording

_LOGGER = get_logger("accelerate.gapless")


class GaplessTracker(GeneralTracker):
    """Record from ``accelerator.init_trackers()`` on, in the main process, and log the verdict.

    It ends after so many ``steps``, as ``accelerator.log(…, step=…)`` counts them (without a
    number each call is one), or with ``accelerator.end_training()``. ``out``: where runs go
    (.gapless/runs). What is logged is not kept: that is for other trackers.
    """

    name: ClassVar[str] = "gapless"
    requires_logging_directory: ClassVar[bool] = False

    def __init__(self, steps: int = DEFAULT_STEPS, out: str | None = None) -> None:
        super().__init__()
        self._recording = LoopRecording(steps, out, self._say)
        self._last_step: int | None = None

    @property
    def tracker(self) -> LoopRecording:
        """Return what records."""
        return self._recording

    def start(self) -> None:
        """Begin."""
        self._recording.begin()

    def store_init_configuration(self, values: object) -> None:  # noqa: ARG002
        """Begin, where Accelerate is too old to say so."""
        self._recording.begin()

    def log(self, values: object, step: int | None = None, **_: object) -> None:  # noqa: ARG002
        """Count the steps since the last call."""
        count = 1 if step is None or self._last_step is None else step - self._last_step
        self._last_step = step
        self._recording.count_step(count)

    def finish(self) -> None:
        """End with the training."""
        self._recording.end()

    @staticmethod
    def _say(line: str) -> None:
        _LOGGER.warning(line)
