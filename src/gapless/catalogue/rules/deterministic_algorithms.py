"""Algorithms that give the same result each time."""

from typing import Final

from gapless.catalogue import examples
from gapless.catalogue.choosing import deterministic_setting
from gapless.catalogue.ruling import RuleFigure, rule
from gapless.catalogue.seen_examples import evidence_of as stated
from gapless.model.change import Scale
from gapless.model.facts import Precision
from gapless.model.finding import Detection, Measure
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence

_LEAVES: Final = ("busy.index", "busy.tc_math", "busy.tc_eligible_not_used")
_FACTOR: Final = Estimate(0.8, 0.97, 1.0)  # as a rule nothing; scatters and convolutions sometimes


@rule(
    "G211",
    "deterministic-algorithms",
    since="0.1",
    figures=[
        RuleFigure(
            "Asked for",
            "torch.use_deterministic_algorithms(True) leaves slower algorithms for some "
            "convolutions and scatters.",
            stated(
                examples.gpu(examples.precision(deterministic=True)),
                {"busy.tc_math": 18, "busy.index": 4},
            ),
        ),
        RuleFigure("Not asked for", None, stated(examples.gpu(), {"busy.tc_math": 18})),
    ],
)
def deterministic_algorithms(evidence: Evidence, precision: Precision) -> Detection | None:
    """Recognise that torch may only use algorithms that give the same result each time.

    ## Why it costs time
    The fastest way of adding many numbers adds them in any order. Without it scatters, embeddings'
    gradients and some convolutions take longer, others not at all.

    ## How it is measured
    The setting is a fact of the run. What it costs shows only a run without it, so its worth is an
    interval from nothing upwards. It carries meaning: gapless leaves it alone.
    """
    facts = evidence.facts
    setting_name = None if facts is None else deterministic_setting(facts)
    if setting_name is None or not evidence.on_device:
        return None
    return deterministic_algorithms.detection(
        f"{setting_name} leaves slower algorithms for some convolutions and scatters.",
        Scale(_FACTOR, leaves=_LEAVES),
        measures=(Measure("settings seen", len(precision.settings), ""),),
        no_remedy="it carries meaning: take it away by hand if results need not repeat to the bit",
        inferred=True,
    )
