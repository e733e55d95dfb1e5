"""Chains of kernels: reductions that leave most of the device idle gain more by being compiled."""

import pytest

from gapless.catalogue import examples
from gapless.catalogue.rules.unfused_elementwise import unfused_elementwise
from gapless.catalogue.seen_examples import seen
from gapless.catalogue.seen_parts import kernel
from gapless.model.change import Scale
from gapless.model.finding import Loss
from gapless.model.trace import Geometry


def _factor(occupancy: float | None) -> float:
    """Give the factor of reductions, half of which fill so much of the device."""
    of = seen(
        examples.gpu(),
        {"busy.tc_math": 22, "busy.elementwise": 12, "busy.norm_reduce": 6},
        kernel("vectorized_elementwise_kernel", 90, 12, "busy.elementwise"),
        kernel("layer_norm_kernel", 30, 3, "busy.norm_reduce", geometry=Geometry(occupancy=0.9)),
        kernel("gamma_beta", 30, 3, "busy.norm_reduce", geometry=Geometry(occupancy=occupancy)),
    )
    (found,) = unfused_elementwise(of)
    assert isinstance(found, Loss)
    changes = [one for one in found.changes if isinstance(one, Scale)]
    (reduced,) = [one.factor.mid for one in changes if one.leaves == ("busy.norm_reduce",)]
    return reduced


@pytest.mark.parametrize(("occupancy", "factor"), [(0.9, 0.85), (None, 0.85), (0.03, 0.6)])
def test_reductions_that_fill_little_of_the_device_gain_more(
    occupancy: float | None, factor: float
) -> None:
    assert _factor(occupancy) == pytest.approx(factor)
