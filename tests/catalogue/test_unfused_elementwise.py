"""Chains of kernels: reductions that leave most of the device idle gain more by being compiled."""

import pytest

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.evidence import evidence_of
from gapless.catalogue.examples.parts import kernel
from gapless.catalogue.rules.compute.unfused_elementwise import unfused_elementwise
from gapless.model.change import Scale
from gapless.model.finding import Detection
from gapless.model.trace import Geometry


def _reduction_factor(occupancy: float | None) -> float:
    """Return the factor of reductions, half of which fill so much of the device."""
    evidence = evidence_of(
        example_facts.gpu(),
        {"busy.tc_math": 22, "busy.elementwise": 12, "busy.norm_reduce": 6},
        kernel("vectorized_elementwise_kernel", 90, 12, "busy.elementwise"),
        kernel("layer_norm_kernel", 30, 3, "busy.norm_reduce", geometry=Geometry(occupancy=0.9)),
        kernel("gamma_beta", 30, 3, "busy.norm_reduce", geometry=Geometry(occupancy=occupancy)),
    )
    (detection,) = unfused_elementwise(evidence)
    assert isinstance(detection, Detection)
    changes = [change for change in detection.changes if isinstance(change, Scale)]
    (reduced,) = [change.factor.mid for change in changes if change.leaves == ("busy.norm_reduce",)]
    return reduced


@pytest.mark.parametrize(("occupancy", "factor"), [(0.9, 0.85), (None, 0.85), (0.03, 0.6)])
def test_reductions_that_fill_little_of_the_device_gain_more(
    occupancy: float | None, factor: float
) -> None:
    assert _reduction_factor(occupancy) == pytest.approx(factor)
