"""What others took of the processors."""

import numpy as np
import pytest

from gapless.model.recording import Samples
from gapless.model.trace import Int64
from gapless.recorded.machine.processors import ProcessorLimits, processor_limits
from gapless.recorded.machine.samples import measure_contention, samples_within

TIMES: Int64 = np.array([10, 20, 30, 40, 50], np.int64)
BUSY_AT_FIRST = Samples(
    {
        "cpu.foreign": (TIMES, (150.0, 150.0, 50.0, 10.0, 10.0)),
        "cpu.stolen": (TIMES, (20.0, 20.0, 5.0, 0.0, 0.0)),
    },
    (),
)


def test_what_others_did_while_the_training_was_set_up_takes_nothing_from_its_steps() -> None:
    contention = measure_contention(BUSY_AT_FIRST, ProcessorLimits(2), (28, 55))
    assert contention is not None
    assert (contention.cores, contention.stolen) == pytest.approx((0.1, 0.0))
    over_run = measure_contention(BUSY_AT_FIRST, ProcessorLimits(2))
    assert over_run is not None
    assert over_run.cores > 0.6


def test_steps_between_two_looks_are_told_by_all_of_them() -> None:
    assert measure_contention(BUSY_AT_FIRST, ProcessorLimits(2), (41, 42)) == measure_contention(
        BUSY_AT_FIRST, ProcessorLimits(2)
    )


def test_a_look_that_began_before_the_steps_counts_only_if_no_other_does() -> None:
    assert samples_within(TIMES, (28, 55)).tolist() == [False, False, False, True, True]
    assert samples_within(TIMES, (28, 35)).tolist() == [False, False, True, False, False]


def constant_samples(**series: float) -> Samples:
    return Samples(
        {f"cpu.{name}": (TIMES, (value,) * len(TIMES)) for name, value in series.items()}, ()
    )


BOUND = {"cpus": 2, "cpu_list": "2-3", "cpus_of_machine": 16, "processors": 2}


def test_what_others_take_of_processors_that_the_run_may_not_use_is_nothing_to_it() -> None:
    # A node of a cluster: two of sixteen processors are ours, and others keep eight busy.
    contention = measure_contention(
        constant_samples(foreign=800.0, contending=3.0, allowed=200.0), processor_limits([BOUND])
    )
    assert contention is not None
    assert (contention.cores, contention.processors) == pytest.approx((0.03, 2))
    crowded = measure_contention(
        constant_samples(foreign=800.0, contending=150.0, allowed=200.0), processor_limits([BOUND])
    )
    assert crowded is not None
    assert crowded.cores == pytest.approx(1.5)


def test_where_it_was_not_sampled_others_took_what_fits_nowhere_else() -> None:
    moderate = measure_contention(
        constant_samples(foreign=800.0, stolen=160.0), processor_limits([BOUND])
    )
    assert moderate is not None
    assert (moderate.cores, moderate.stolen, moderate.processors) == pytest.approx((0.0, 0.2, 2))
    heavy = measure_contention(constant_samples(foreign=1500.0), processor_limits([BOUND]))
    assert heavy is not None
    assert heavy.cores == pytest.approx(1.0)


def test_a_quota_is_not_shared_with_others() -> None:
    quota = {"cpus": 16, "cpu_list": "0-15", "cpus_of_machine": 16, "processors": 4}
    assert processor_limits([quota]) == ProcessorLimits(16, 16, 4)
    for foreign, cores in ((800.0, 0.0), (1400.0, 2.0)):
        contention = measure_contention(
            constant_samples(foreign=foreign), processor_limits([quota])
        )
        assert contention is not None
        assert (contention.cores, contention.processors) == pytest.approx((cores, 4))


def test_ranks_have_the_processors_of_all_of_them() -> None:
    ranks = [BOUND | {"cpu_list": f"{2 * rank}-{2 * rank + 1}"} for rank in range(4)]
    assert processor_limits(ranks) == ProcessorLimits(16, 8)
    assert processor_limits([{"cpus": 4, "cpu_list": "no list"}]) == ProcessorLimits(4, 4)
    assert processor_limits([]) == ProcessorLimits()
    unknown = measure_contention(constant_samples(foreign=100.0), ProcessorLimits())
    assert unknown is not None
    assert unknown.processors is None
