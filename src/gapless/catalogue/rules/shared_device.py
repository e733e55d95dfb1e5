"""A device that others compute on, too."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.ruling import Figure, NotSeenError, rule
from gapless.catalogue.seen_examples import changed
from gapless.catalogue.seen_examples import seen as stated
from gapless.model.change import Scale
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import DeviceState
from gapless.model.seen import Seen

_OFTEN: Final = 0.1  # of the looks
_TAKEN: Final = Interval(0.5, 0.85, 1.0)  # of our time, if they computed nothing
_RUN: Final = stated(examples.gpu(), {"busy.tc_math": 40})


def _state(others: float) -> DeviceState:
    return DeviceState(0, 0.98, 1980.0, 1980.0, {}, others, None, None, None)


@rule(
    "G802",
    "shared-device",
    since="0.1",
    figures=[
        Figure(
            "Another training beside",
            "Processes that are not of this run had work on GPU 0 in 90 % of the looks.",
            changed(_RUN, devices_seen=(_state(0.9),)),
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
    By asking the driver, about once a second, which processes compute on it. How much they took is
    not seen, so the gain is an interval that begins at nothing.
    """
    recorded = seen.study.recorded
    states = () if recorded is None else recorded.devices_seen
    known = [one for one in states if one.others is not None]
    if not known or not seen.on_device:
        raise NotSeenError("device", "who computes on the device was not sampled")
    most = max(known, key=lambda one: one.others or 0.0)
    if (most.others or 0.0) < _OFTEN:
        return None
    return shared_device.loss(
        f"Processes that are not of this run had work on GPU {most.number} in "
        f"{100 * (most.others or 0.0):.0f} % of the looks.",
        Scale(_TAKEN, leaves=("busy.",)),
        evidence=(Measure("looks in which others had work there", most.others or 0.0, "share"),),
        no_remedy="Use another GPU (CUDA_VISIBLE_DEVICES), or wait until they are done "
        "(nvidia-smi shows them).",
    )
