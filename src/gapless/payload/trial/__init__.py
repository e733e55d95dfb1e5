"""What only trials do in the training: stop at a planned step, seeds, parity, samples.

The plan is ``GAPLESS_OPTIONS``' "trial": {"stop": the steps after which to leave, "seconds": of
stepping, at most, "seed", "losses": micro-batches, "batches": whose samples are looked at,
"close": the loaders' workers are ended, "window": one of torch's profiler is taken after the last
step, "switching": edits that are switched while it runs (``switching``), "turns": in which it steps
while another process is stopped (``turns``), "data": what its input costs is measured in the place
of training (``feeding``), "export": its model is exported in the place of training
(``exporting``)}.
"""

from __future__ import annotations

from typing import Any

from ... import wire
from .. import patching, recorder
from ..log import process
from ..process_state import keep_fields
from . import losses, samples, stop, switching, turns

_arm = keep_fields(is_open=False)  # its outcome is yet to be written


def begin(plan: dict[str, Any], end_process: Any) -> None:
    """Begin a trial's arm in this process.

    ``end_process(exit_kind)`` writes everything, and that the process ends.
    """
    _arm.is_open = True
    losses.begin(int(plan.get("losses") or 0))
    samples.begin(int(plan.get("batches") or 0))
    switching.begin(plan.get("switching"))
    stop.begin(plan, finish, end_process)
    turns.begin(plan.get("turns"))  # after it: at the planned step this process leaves
    if plan.get("data"):
        from ..feeding import takeover

        takeover.begin(plan["data"])
    if plan.get("export"):
        from ..exporting import takeover as model_takeover

        model_takeover.begin(plan["export"])


def finish(stopped: int | None = None) -> None:
    """Write what was observed, once; ``stopped``: the planned step at which this process leaves."""
    if not _arm.is_open or process.worker() is not None:
        return
    _arm.is_open = False
    outcome = {
        **_collect_safely(losses.collect_losses),
        **_collect_safely(samples.collect_samples),
        "stopped": stopped,
    }
    recorder.write(wire.TRIAL, outcome)


def _collect_safely(ask: Any) -> dict[str, Any]:
    return patching.guard("trial")(ask)() or {}
