"""The ceiling of the storage: the data set's own files, read by the machine's probe."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gapless.launch import probing
from gapless.model.input_costs import StorageSpeed
from gapless.model.machine import Constants

_SECONDS: Final = 6.0
_MAX_FILES: Final = 256
_READERS: Final = (1, 2, 4, 8)
_STATES: Final = ("ordered", "cold", "warm")
_NS: Final = 1e9
_GONE_FILES: Final = "they are gone with the private view that the command wrote them in"


def measure_storage(
    python: str, files: Sequence[str], report_progress: Callable[[str], None]
) -> tuple[StorageSpeed, ...]:
    """Read files cold in the order of their names and at random, by 1 to 8 readers, and warm.

    Those that were not measured have the reason.
    """
    present = [path for path in files if Path(path).is_file()]
    if not present:
        return (StorageSpeed("cold", 1, None, None, _GONE_FILES),)
    request = probing.ProbeRequest(
        files=tuple(present[:_MAX_FILES]), parts=("data",), readers=_READERS, seconds=_SECONDS
    )
    constants = probing.measure(python, request, report_progress)
    return tuple(speed for state in _STATES for speed in _speeds_of(constants, state))


def _speeds_of(constants: Constants, state: str) -> list[StorageSpeed]:
    files_ns = dict(constants.series(f"data.file.{state}"))
    speeds = [
        StorageSpeed(
            state, readers, value, _NS / files_ns[readers] if readers in files_ns else None
        )
        for readers, value in constants.series(f"data.rate.{state}")
    ]
    if speeds:
        return speeds
    reasons = [
        constant.why
        for constant in constants.values
        if constant.name == f"data.rate.{state}" and constant.why
    ]
    why = next(iter(reasons), constants.why) or "it was not measured"
    return [StorageSpeed(state, 1, None, None, why)]
