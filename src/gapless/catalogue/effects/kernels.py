"""What edits that run other kernels change: in another format or layout, or chosen otherwise."""

from typing import Final

from gapless.catalogue.declare.fix import Changes, Effect
from gapless.model.change import Scale
from gapless.model.edit import Proposal
from gapless.model.evidence import Evidence
from gapless.roofline.roofline import NO_CHANGE

_NO_EFFECT: Final[Changes] = (Scale(NO_CHANGE, leaves=("busy.",)),)  # known to change nothing


def kernel_effect(effect: Effect) -> Effect:
    """Return an effect on kernels, not known without rows of work; ``()``: nothing changes."""

    def predict_changes(evidence: Evidence, proposal: Proposal) -> Changes | None:
        if not evidence.study.work:
            return None
        changes = effect(evidence, proposal)
        return _NO_EFFECT if changes == () else changes

    return predict_changes
