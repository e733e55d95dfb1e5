"""Rates of copies from pinned memory: measured, of the device's generation, or usual."""

import pytest

from gapless.model.machine import Constant, Constants
from gapless.replay.edits.copies import USUAL_RATES, rates_of


def test_without_a_known_device_the_usual_rates_of_all_generations_hold() -> None:
    assert rates_of(None) == USUAL_RATES
    assert rates_of(None, (3, 5)) == USUAL_RATES


@pytest.mark.parametrize(
    ("capability", "gigabytes"),
    [((7, 5), 12), ((8, 0), 24), ((8, 9), 24), ((9, 0), 52), ((10, 3), 52), ((12, 0), 52)],
)
def test_a_device_is_as_fast_as_the_bus_of_its_generation(
    capability: tuple[int, int], gigabytes: int
) -> None:
    rates = rates_of(None, capability)
    assert rates.pinned.mid == gigabytes * 1e9
    assert rates.pinned.low < rates.pinned.mid / 2 < rates.pinned.high
    assert rates.slowdown == USUAL_RATES.slowdown


def test_what_was_measured_of_the_machine_comes_first() -> None:
    measured = (
        Constant("copy.h2d.pinned", "B/s", 1 << 20, 1e10, 1e10, 1e10, 5, 0.1),
        Constant("copy.h2d.pinned", "B/s", 1 << 26, 2e10, 2e10, 2e10, 5, 0.1),
    )
    constants = Constants(None, measured, (), 0.0, 0.0)
    assert rates_of(constants, (9, 0)).pinned.mid == pytest.approx(2e10)
