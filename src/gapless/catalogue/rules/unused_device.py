"""A GPU that is there and does nothing, while the processors train."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.ruling import Figure, rule
from gapless.catalogue.seen_examples import changed
from gapless.catalogue.seen_examples import seen as stated
from gapless.catalogue.windowed import ms
from gapless.model.change import Scale
from gapless.model.facts import Machine, Model
from gapless.model.finding import Loss, Measure
from gapless.model.interval import Interval
from gapless.model.run import DeviceState
from gapless.model.seen import Seen

_IDLE: Final = 0.02  # of the time: below it, it did nothing
_FASTER: Final = Interval(0.02, 0.1, 0.7)  # of the processors' time for the same operators
_ON_CPU: Final = stated(examples.cpu(), {"busy.math": 90, "idle.host.python": 10})


def _state(busy: float) -> DeviceState:
    return DeviceState(0, busy, None, None, {}, 0.0, None, None, None)


@rule(
    "G803",
    "unused-device",
    since="0.1",
    figures=[
        Figure(
            "The model was not moved",
            "ResNet is trained on the processors, 100.0 ms a step, while GPU 0 does nothing.",
            changed(_ON_CPU, devices_seen=(_state(0.0),)),
        ),
        Figure(
            "It is at work for others",
            None,
            changed(_ON_CPU, devices_seen=(_state(0.9),)),
        ),
        Figure("There is none", None, _ON_CPU),
    ],
)
def unused_device(seen: Seen, machine: Machine, model: Model) -> Loss | None:
    """Recognise a model on the CPU of a machine whose GPU does nothing.

    ## Why it costs time
    A GPU computes most models ten to a hundred times as fast. A model stays on the processors where
    ``.to("cuda")`` was forgotten, or where torch was built without CUDA and the script took that
    for an answer.

    ## How it is measured
    By where the model's parameters lie, and by sampling what the visible GPUs do.
    """
    recorded = seen.study.recorded
    states = () if recorded is None else recorded.devices_seen
    idle = [one for one in states if one.busy is not None and one.busy < _IDLE]
    on_cpu = (model.device or "").startswith("cpu")
    if not on_cpu or machine.device is not None or not idle or seen.on_device:
        return None
    name = model.name.rpartition(".")[2]
    return unused_device.loss(
        f"{name} is trained on the processors, {ms(seen.step_ns or 0)} a step, while GPU "
        f"{idle[0].number} does nothing.",
        Scale(_FASTER, leaves=("busy.",)),
        where=model.where,
        evidence=(
            Measure("operators on the processors, a step", seen.per_step("busy."), "ns"),
            Measure("time in which a kernel ran", idle[0].busy or 0.0, "share"),
        ),
        no_remedy='Move the model and each batch to it: .to("cuda"). If '
        "torch.cuda.is_available() is False there, torch was built without CUDA.",
        inferred=True,
    )
