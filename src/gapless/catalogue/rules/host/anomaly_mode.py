"""Anomaly detection, left on."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import setting_location, torch_setting
from gapless.catalogue.effects.debug_switches import CHECK_OPERATOR, changes_without_checks
from gapless.catalogue.fixes.host.debug_off import debug_off
from gapless.catalogue.queries import windows
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Measure

_MIN_CHECKS: Final = 5  # checks a step


@rule(
    "G209",
    "anomaly-mode",
    figures="""
    # torch.autograd.set_detect_anomaly(True)
    > Anomaly detection is on: 200 results of the backward pass a step are checked for NaN, and the
      stack of each operation is recorded.
    gpu(precision(anomaly=True))
    busy.tc_math 20, idle.sync.refill 10, idle.host.dispatch 20
    operator(CHECK_OPERATOR, calls=200, host_ms=4, device_ms=1)
    operator("aten::item", calls=200, host_ms=20)
    operator("aten::addmm", calls=100, host_ms=15, device_ms=15)
    operator("autograd::engine::evaluate_function: AddmmBackward0", 100, 9, 9)
    # Off
    gpu()
    busy.tc_math 20
    operator("aten::any", 2, 0.1, 0.1)
    """,
)
def anomaly_mode(evidence: Evidence) -> Detection | None:
    """Recognise that torch looks for NaN after each step of the backward pass.

    ## Why it costs time
    Each result of the backward pass is checked, and the host waits for the answer. In the forward
    pass the Python stack of each operation is recorded. It is meant for finding an error, once.

    ## How it is measured
    The setting is a fact of the run, with the line that made it; if it is on for only part of the
    step, and in other traces, the checks show it. The gain is that of leaving out the checks, and
    the stacks at their usual cost, as deep as a window with stacks shows them: a wide interval.
    """
    n_checks = windows.sum_calls(evidence, CHECK_OPERATOR).count
    is_on = torch_setting(evidence.facts, "anomaly")
    if not is_on and n_checks < _MIN_CHECKS:  # it may be on within a step only, unobserved
        return None
    return anomaly_mode.detection(
        f"Anomaly detection is on: {windows.format_count(n_checks)} results of the backward pass "
        "a step are checked for NaN, and the stack of each operation is recorded.",
        *changes_without_checks(evidence),
        location=setting_location(evidence.facts, "anomaly_at"),
        measures=(Measure("checks a step", n_checks, ""),),
        helps=(debug_off.request(),),
        no_remedy=(
            "take set_detect_anomaly(True) out; since it may be meant, gapless tries it only when "
            "asked: gapless try --fix debug-off --override --risky"
        ),
    )
