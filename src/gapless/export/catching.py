"""Start the command as far as its model, have that exported there, and keep what was written."""

import shutil
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gapless import wire
from gapless.errors import UsageError
from gapless.verify import in_place

FORMATS: Final = ("torch-export", "onnx", "aoti", "tensorrt")
EVALUATION, SAVED = "evaluation", "saved"
_START_S: Final = 1200.0  # for the command to come as far as its model, and for the exporters
_WHOLE_S: Final = 10.0**8  # the command goes on to its end
_PATIENCE: Final = 4.0  # times the seconds asked for: a call may be long
_FORWARDS: Final = 16  # of evaluating, of which the shapes are seen


class ExportPlan(Struct, frozen=True):
    """What to export: the command, the formats, when its model is caught, whose weights, where to.

    ``steps``: forwards of training after which it is caught though nothing was evaluated.
    """

    command: tuple[str, ...]
    folder: Path
    has_private_view: bool
    formats: tuple[str, ...]
    out: Path
    moment: str  # EVALUATION, SAVED
    steps: int
    seconds: float
    model: str | None = None  # its class
    weights: Path | None = None


def run_arm(plan: ExportPlan, report_progress: in_place.Progress) -> in_place.TakeoverRecord:
    """Run the command and return what came of it; the files lie where they are to lie then.

    Raises ``OSError`` where it cannot begin or nothing can be written.
    """
    report_progress("starting the command, as far as its model")
    takeover = in_place.TakeoverPlan(
        command=plan.command,
        folder=plan.folder,
        has_private_view=plan.has_private_view,
        takeover={"export": _payload_plan(plan)},
        deadline_s=_WHOLE_S if plan.moment == SAVED else _START_S + _PATIENCE * plan.seconds,
        take_files=lambda spool: take_files(spool, plan.out),
    )
    return in_place.run(takeover, report_progress)


def check_place(out: Path) -> None:
    """Raise ``UsageError`` if nothing can be written into a folder, or something is there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there, and nothing is overwritten; name another with --out")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{out} cannot be made: there is no folder {parent}")


def take_files(spool: Path, out: Path) -> None:
    """Move what was written from the spool, which is removed, to where it is to lie."""
    files = [path for path in (spool / wire.EXPORT_FOLDER).glob("model*") if path.is_file()]
    if not files:
        return
    out.mkdir(exist_ok=True)
    for path in files:
        shutil.move(path, out / path.name)


def _payload_plan(plan: ExportPlan) -> dict[str, Any]:
    return {
        "to": list(plan.formats),
        "at": plan.moment,
        "model": plan.model,
        "steps": plan.steps,
        "forwards": _FORWARDS,
        "weights": None if plan.weights is None else str(plan.weights.absolute()),
        "seconds": plan.seconds,
    }
