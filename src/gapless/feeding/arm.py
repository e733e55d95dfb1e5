"""Start the command as far as its loader, and have that measured in the place of training."""

from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gapless.model.edit import Location
from gapless.verify import in_place

_START_S: Final = 600.0  # for the command to come as far as its loader, beside the time to measure
_PATIENCE: Final = 4.0  # times the seconds asked for: one round may be long


class InputPlan(Struct, frozen=True):
    """What to measure: the command, its loader where it is known, how many samples, how long."""

    command: tuple[str, ...]
    folder: Path
    has_private_view: bool
    loaders: tuple[Location, ...]  # lines at which loaders of the training were made
    samples: int
    seconds: float


def run_arm(plan: InputPlan, report_progress: in_place.Progress) -> in_place.TakeoverRecord:
    """Run the command and return what was measured; after Ctrl-C what there was until then.

    Raises ``OSError`` where it cannot begin.
    """
    report_progress("starting the command, as far as its loader")
    takeover = in_place.TakeoverPlan(
        command=plan.command,
        folder=plan.folder,
        has_private_view=plan.has_private_view,
        takeover={"data": _payload_plan(plan)},
        deadline_s=_START_S + _PATIENCE * plan.seconds,
    )
    return in_place.run(takeover, report_progress)


def _payload_plan(plan: InputPlan) -> dict[str, Any]:
    return {
        "lines": [[location.file, location.line] for location in plan.loaders],
        "samples": plan.samples,
        "seconds": plan.seconds,
    }
