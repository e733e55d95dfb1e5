"""Gradients that are filled with zeros before each step."""

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.fixes.host.set_to_none import ZERO_CALL, changes_when_dropped, set_to_none
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure


@rule(
    "G213",
    "zeroed-gradients",
    figures="""
    # zero_grad(set_to_none=False)
    > Gradients are filled with zeros, and the next ones added to them: 1.2 ms of the host's and 0.5
      ms of the device's in each 22.0 ms step.
    gpu(zero_grad_to_zero=312)
    busy.tc_math 20, busy.zero_grad 0.5, busy.elementwise 1.5
    operator("Optimizer.zero_grad#AdamW.zero_grad", 1, 1.2, 0.5)
    # Dropped, torch's default
    gpu(zero_grad_to_zero=0)
    busy.tc_math 20
    operator("Optimizer.zero_grad#AdamW.zero_grad", 1, 0.1, 0)
    """,
)
def zeroed_gradients(evidence: Evidence) -> Detection | None:
    """Recognise that gradients are set to zero where they could be dropped.

    ## Why it costs time
    Zeros are written, read again and added to. A dropped gradient is replaced by the next one:
    nothing is written or added.

    ## How it is measured
    By calls that ask for zeros; in other traces by the kernels launched in ``zero_grad``.
    """
    calls = windows.sum_calls(evidence, ZERO_CALL)
    facts = evidence.facts
    n_zeroings = facts.calls.get("zero_grad_to_zero")
    if n_zeroings == 0 or (n_zeroings is None and not calls.device_ns):
        return None
    return zeroed_gradients.detection(
        "Gradients are filled with zeros, and the next ones added to them: "
        f"{windows.ms(calls.host_ns)} of the host's and {windows.ms(calls.device_ns)} of the "
        f"device's in each {windows.ms(evidence.step_ns or 0)} step.",
        *changes_when_dropped(evidence),
        measures=(
            Measure("zero_grad on the host, a step", calls.host_ns, "ns"),
            Measure("zero_grad on the device, a step", calls.device_ns, "ns"),
        ),
        helps=(set_to_none.request(),),
    )
