"""A device that others compute on, too."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import changed
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.windowed import of_step
from gapless.model.account import RowAccount
from gapless.model.change import Drop, Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import DeviceState
from gapless.model.seen import Seen

_OFTEN: Final = 0.1  # of the looks
_TAKEN: Final = Interval(0.5, 0.85, 1.0)  # of our time, if they computed nothing
_WAITS: Final = "idle.device.wait"  # longer than a device ever takes from one kernel to the next
_MUCH: Final = 0.1  # of each step
_LITTLE: Final = 0.005  # likewise, where others are known to be there
_STEPS: Final = 3  # of windows, at least
_ELSEWHERE: Final = (
    "Use another GPU (CUDA_VISIBLE_DEVICES), or wait until they are done (nvidia-smi shows them)."
)
_RUN: Final = stated(examples.gpu(), {"busy.tc_math": 40})
_TURNS: Final = stated(examples.gpu(), {"busy.tc_math": 40, _WAITS: 25})


def _state(others: float) -> DeviceState:
    return DeviceState(0, 0.98, 1980.0, 1980.0, {}, others, None, None, None)


@rule(
    "G802",
    "shared-device",
    since="0.1",
    figures=[
        Figure(
            "Another training beside",
            "Processes that are not of this run are on GPU 0 in 90 % of the looks; for 25.0 ms "
            "of each 65.0 ms step what is ready for the training's device lies undone.",
            changed(_TURNS, devices_seen=(_state(0.9),)),
        ),
        Figure(
            "Another process beside that does nothing",
            "Processes that are not of this run are on GPU 0 in 90 % of the looks; in most "
            "steps what is ready for the training's device is begun at once.",
            changed(_RUN, devices_seen=(_state(0.9),)),
        ),
        Figure(
            "Others are not seen, but what they do is",
            "The device leaves work that is ready for it undone for 25.0 ms of each 65.0 ms step, "
            "as where others compute on it.",
            _TURNS,
        ),
        Figure("Alone", None, changed(_RUN, devices_seen=(_state(0.0),))),
    ],
)
def shared_device(seen: Seen) -> Loss | None:
    """Recognise that other processes compute on the device of the training.

    ## Why it costs time
    A device runs the kernels of one process at a time, in turns; it does not share itself evenly,
    and memory that others hold is not there for a larger batch.

    ## How it is measured
    By asking the driver, about once a second, which processes are on it; that one is there does not
    say that it computes. What it takes shows in windows, also where the driver does not tell (in a
    container, of a trace): a device that is alone begins what is queued within 20 µs; one that
    takes turns with other processes lets it lie for a time slice of theirs (2.3 ms on an H200), in
    each step. That time is what the gain begins at; others may take as much again within kernels,
    where it does not show. Without windows the gain is an interval that begins at nothing.
    """
    recorded = seen.study.recorded
    states = () if recorded is None else recorded.devices_seen
    known = [one for one in states if one.others is not None]
    if not seen.has_device:
        return None
    if not seen.on_device:
        raise NotSeenError("device", "who computes on the device was not sampled")
    most = max(known, key=lambda one: one.others or 0.0, default=None)
    if most is not None and (most.others or 0.0) >= _OFTEN:
        return _told(seen, most)
    if _in_each_step(seen):
        return _felt(seen)
    if most is None:
        raise NotSeenError("device", "who computes on the device was not sampled")
    return None


def _in_each_step(seen: Seen) -> bool:
    """Tell whether each step of the windows waits: at the head of a capture a single one may."""
    rows = seen.study.account.rows
    return len(rows) >= _STEPS and all(_waits(one, _MUCH) for one in rows)


def _waits(row: RowAccount, least: float) -> bool:
    return row.leaves.get(_WAITS, 0) >= least * max(1, sum(row.leaves.values()))


def _told(seen: Seen, state: DeviceState) -> Loss:
    others, rows = state.others or 0.0, seen.study.account.rows
    there = (
        f"Processes that are not of this run are on GPU {state.number} "
        f"in {100 * others:.0f} % of the looks"
    )
    looks = Measure("looks in which others were there", others, "share")
    if not rows:
        return shared_device.loss(
            f"{there}; what they take is not known.",
            Scale(_TAKEN, leaves=("busy.",)),
            evidence=(looks,),
            no_remedy=_ELSEWHERE,
        )
    often = 2 * sum(_waits(one, _LITTLE) for one in rows) >= len(rows)
    what = "in most steps what is ready for the training's device is begun at once"
    if often:
        undone = of_step(seen, seen.per_step(_WAITS))
        what = f"for {undone} what is ready for the training's device lies undone"
    return shared_device.loss(
        f"{there}; {what}.",
        Drop((_WAITS,), keep=0.0 if often else 1.0),
        evidence=(looks, _undone(seen)),
        no_remedy=_ELSEWHERE,
    )


def _felt(seen: Seen) -> Loss:
    return shared_device.loss(
        f"The device leaves work that is ready for it undone for "
        f"{of_step(seen, seen.per_step(_WAITS))}, as where others compute on it.",
        Drop((_WAITS,)),
        evidence=(_undone(seen),),
        no_remedy=_ELSEWHERE,
        inferred=True,
    )


def _undone(seen: Seen) -> Measure:
    return Measure("waits with work queued", seen.per_step(_WAITS) / 1e6, "ms a step")
