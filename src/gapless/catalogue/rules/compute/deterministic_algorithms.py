"""Deterministic algorithms."""

from typing import Final

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.declare.selectors import deterministic_setting
from gapless.model.change import Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure

_LEAVES: Final = ("busy.index", "busy.tc_math", "busy.tc_eligible_not_used")
_FACTOR: Final = Estimate(0.8, 0.97, 1.0)  # usually nothing; scatters, convolutions sometimes


@rule(
    "G211",
    "deterministic-algorithms",
    figures="""
    # Asked for
    > torch.use_deterministic_algorithms(True) leaves slower algorithms for some convolutions and
      scatters.
    gpu(precision(deterministic=True))
    busy.tc_math 18, busy.index 4
    # Not asked for
    gpu()
    busy.tc_math 18
    """,
)
def deterministic_algorithms(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise that torch may only use deterministic algorithms.

    ## Why it costs time
    The fastest way to add many numbers adds them in any order. Without it scatters, gradients of
    embeddings and some convolutions take longer; other operators do not.

    ## How it is measured
    The setting is a fact of the run. Only a run without it shows its cost, so the gain is an
    interval from nothing upwards. It is a choice about results: gapless leaves it alone.
    """
    facts = evidence.facts
    setting_name = deterministic_setting(facts)
    if setting_name is None or not evidence.on_device:
        return None
    return deterministic_algorithms.detection(
        f"{setting_name} leaves slower algorithms for some convolutions and scatters.",
        Scale(_FACTOR, leaves=_LEAVES),
        measures=(Measure("settings seen", len(precision.settings), ""),),
        no_remedy="a choice about results: remove it by hand if they need not be bit-identical",
        inferred=True,
    )
