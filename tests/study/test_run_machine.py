"""Sampled series, energy and cost of recordings made by hand."""

import pytest

from gapless.model.recording import Samples
from gapless.recorded.machine.samples import (
    cost,
    energy,
    gpu_utilisation,
    machine_series,
    used_gpus,
)
from tests.study.recording import MS, recording

SPAN = (0, 8000 * MS)


def samples(**series: list[tuple[float, float]]) -> Samples:
    columns = {
        name.replace("__", "."): ([ms for ms, _ in points], [value for _, value in points])
        for name, points in series.items()
    }
    return recording(series=columns).samples


def flat(value: float, count: int = 5) -> list[tuple[float, float]]:
    return [(index * 2000.0, value) for index in range(count)]


def test_series_are_means_of_equal_stretches_with_gaps() -> None:
    series_list = machine_series(
        samples(gpu0__sm=[(0, 10), (1000, 30), (2500, 50), (7900, 100), (7950, 80), (7999, 0)]),
        SPAN,
    )
    (gpu_series,) = series_list
    assert (gpu_series.title, gpu_series.unit, gpu_series.ceiling) == (
        "GPU 0 runs a kernel",
        "%",
        100,
    )
    assert gpu_series.points == (20, 50, None, 60)
    assert (gpu_series.low, gpu_series.high) == (0, 100)


def test_units_are_those_that_people_read() -> None:
    series_list = machine_series(samples(cpu__tree=flat(250), memory__available=flat(2**31)), SPAN)
    assert [(chart.title, chart.mean, chart.unit) for chart in series_list] == [
        ("CPU of this run", 2.5, "cores"),
        ("memory free", 2, "GiB"),
    ]


def test_a_memory_is_drawn_to_its_size() -> None:
    memory_samples = samples(gpu0__memory_used=flat(2**30), gpu0__memory_total=flat(2**32))
    (memory,) = machine_series(memory_samples, SPAN)
    assert memory.ceiling == 4


def test_what_hardly_moves_or_is_not_known_is_left_out() -> None:
    idle_samples = samples(disk__sda__read=flat(5000), gpu0__sm=[], somebody__else=flat(7))
    assert machine_series(idle_samples, SPAN) == ()


def test_energy_is_the_counters_difference_parted_by_utilisation() -> None:
    counter = [(index * 2000.0, 5000 + 100.0 * index) for index in range(5)]
    energy_use = energy(samples(gpu0__energy=counter, gpu0__power=flat(1), gpu0__sm=flat(25)))
    assert energy_use is not None
    assert (energy_use.joules, energy_use.idle_joules) == (400, pytest.approx(300))
    assert energy_use.source == "energy counter"


def test_without_a_counter_power_is_summed_and_without_utilisation_not_parted() -> None:
    energy_use = energy(samples(gpu0__power=flat(50), gpu1__power=flat(100)))
    assert energy_use is not None
    assert (energy_use.joules, energy_use.idle_joules, energy_use.source) == (
        1200,
        None,
        "sampled power",
    )


def test_nothing_sampled_is_nothing_said() -> None:
    assert energy(samples()) is None
    assert energy(samples(gpu0__power=flat(50, 1))) is None
    assert gpu_utilisation(samples(cpu__total=flat(3))) is None


def test_gpus_that_were_looked_at_only_at_first_are_not_used() -> None:
    assert used_gpus(samples(gpu0__sm=flat(5), gpu1__sm=flat(5, 2), gpu2__sm=flat(5, 3))) == (
        "gpu0",
        "gpu2",
    )


def test_utilisation_is_a_mean_over_time() -> None:
    assert gpu_utilisation(samples(gpu0__sm=[(0, 0), (1000, 100), (5000, 100)])) == 0.9


def test_cost_names_the_part_in_which_nothing_worked() -> None:
    run_cost = cost(2.0, 4, 3_600_000_000_000, (0.25, "sampled"))
    assert (run_cost.whole, run_cost.idle, run_cost.idle_share) == (8.0, 6.0, 0.75)
    assert cost(2.0, 1, 1_800_000_000_000, None).whole == 1.0
    assert cost(2.0, 1, 1_800_000_000_000, None).idle is None
