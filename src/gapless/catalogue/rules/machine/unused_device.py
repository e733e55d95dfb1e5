"""A GPU that does nothing while the processors train."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries.windows import ms
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Machine, Model
from gapless.model.finding import Detection, Measure

_MAX_BUSY_SHARE: Final = 0.02  # of the time: below it, the GPU did nothing
_DEVICE_FACTOR: Final = Estimate(0.02, 0.1, 0.7)  # of the processors' time for the same operators


@rule(
    "G803",
    "unused-device",
    figures="""
    make_run() = evidence_of(cpu(), {"busy.math": 90, "idle.host.python": 10})
    device_state(busy) = DeviceState(0, busy, None, None, {}, 0.0, None, None, None)
    # The model was not moved
    > ResNet is trained on the processors, 100.0 ms a step, while GPU 0 does nothing.
    with_recorded(make_run(), devices_seen=(device_state(0.0),))
    # It works for other processes
    with_recorded(make_run(), devices_seen=(device_state(0.9),))
    # There is none
    make_run()
    """,
)
def unused_device(evidence: Evidence, machine: Machine, model: Model) -> Detection | None:
    """Recognise a model on the CPU of a machine whose GPU does nothing.

    ## Why it costs time
    A GPU computes most models ten to a hundred times as fast. A model stays on the processors where
    ``.to("cuda")`` was forgotten, or where torch was built without CUDA and the script silently
    fell back.

    ## How it is measured
    By where the model's parameters are, and by sampling what the visible GPUs do.
    """
    states = evidence.device_states
    idle_states = [
        state for state in states if state.busy is not None and state.busy < _MAX_BUSY_SHARE
    ]
    is_on_cpu = (model.device or "").startswith("cpu")
    if not is_on_cpu or machine.device is not None or not idle_states or evidence.on_device:
        return None
    name = model.name.rpartition(".")[2]
    return unused_device.detection(
        f"{name} is trained on the processors, {ms(evidence.step_ns or 0)} a step, while GPU "
        f"{idle_states[0].number} does nothing.",
        Scale(_DEVICE_FACTOR, leaves=("busy.",)),
        location=model.location,
        measures=(
            Measure("operators on the processors, a step", evidence.per_step("busy."), "ns"),
            Measure("time in which a kernel ran", idle_states[0].busy or 0.0, "share"),
        ),
        no_remedy='Move the model and each batch to it: .to("cuda"). If '
        "torch.cuda.is_available() is False there, torch was built without CUDA.",
        inferred=True,
    )
