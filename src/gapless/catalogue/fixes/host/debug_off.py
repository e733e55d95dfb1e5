"""Switch off what looks for errors."""

from gapless.catalogue.declare.fix import Changes, Option, fix
from gapless.catalogue.declare.selectors import torch_setting
from gapless.catalogue.effects.debug_switches import changes_without_checks, changes_without_waits
from gapless.model.edit import Applicability, Proposal, SetEnv, SetGlobal, Skip
from gapless.model.evidence import Evidence
from gapless.model.facts import Facts


def _predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
    """Return what changes without the switches, for replay."""
    changes: Changes = ()
    for edit in proposal.edits:
        match edit:
            case SetEnv():
                changes += changes_without_waits(evidence)
            case SetGlobal():
                changes += changes_without_checks(evidence)
            case _:
                pass
    return changes or None


@fix(
    "debug-off",
    effect=_predict_changes,
    cases="""
    # Launches wait
    > risky: CUDA_LAUNCH_BLOCKING is not set
    gpu(precision(launch_blocking=True)), SetEnv("CUDA_LAUNCH_BLOCKING", None)
    # Anomaly detection, which may be switched off
    > risky: anomaly detection is off
    gpu(precision(anomaly=True)), Option(override=True)
    SetGlobal("torch.set_anomaly_enabled", value=False)
    # Anomaly detection, which may be intended
    > refused: anomaly detection is on, which may be intended; --override --risky tries it
    > risky: torch does not look for synchronising calls
    gpu(precision(anomaly=True, sync_debug_mode=1))
    # None is on
    > nothing to change: no switch for finding errors was seen to be on
    gpu()
    """,
)
def debug_off(facts: Facts, option: Option) -> tuple[Proposal, ...]:
    """Switch off what looks for errors: anomaly detection, blocking launches, sync warnings.

    ## Precondition
    One of them was on. Anomaly detection is switched off with ``--override --risky`` only.

    ## Safety
    Risky: the training no longer stops where a gradient becomes NaN, and errors of kernels are
    reported at a later line.
    """
    proposals = list[Proposal]()
    if torch_setting(facts, "anomaly"):
        proposals.append(_propose_no_anomaly(option))
    if torch_setting(facts, "launch_blocking"):
        proposals.append(
            debug_off.proposal(
                "CUDA_LAUNCH_BLOCKING is not set",
                SetEnv("CUDA_LAUNCH_BLOCKING", None),
                applicability=Applicability.RISKY,
                risk="errors of kernels are reported at a later line",
            )
        )
    if torch_setting(facts, "sync_debug_mode"):
        proposals.append(
            debug_off.proposal(
                "torch does not look for synchronising calls",
                Skip("torch.cuda.set_sync_debug_mode"),
                applicability=Applicability.RISKY,
                risk="synchronising calls are no longer reported or forbidden",
            )
        )
    no_change = debug_off.no_change("no switch for finding errors was seen to be on")
    return tuple(proposals) or (no_change,)


def _propose_no_anomaly(option: Option) -> Proposal:
    if not option.override:
        reason = "anomaly detection is on, which may be intended; --override --risky tries it"
        return debug_off.refusal(reason)
    return debug_off.proposal(
        "anomaly detection is off",
        SetGlobal("torch.set_anomaly_enabled", value=False),
        applicability=Applicability.RISKY,
        risk="the training does not stop where a gradient becomes NaN",
    )
