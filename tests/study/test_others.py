"""What others took of the processors."""

import numpy as np
import pytest

from gapless.model.recording import Samples
from gapless.model.trace import Int64
from gapless.study.recorded.machine import others, within
from gapless.study.recorded.processors import Room, room

AT: Int64 = np.array([10, 20, 30, 40, 50], np.int64)
BUSY_AT_FIRST = Samples(
    {
        "cpu.foreign": (AT, (150.0, 150.0, 50.0, 10.0, 10.0)),
        "cpu.stolen": (AT, (20.0, 20.0, 5.0, 0.0, 0.0)),
    },
    (),
)


def test_what_others_did_while_the_training_was_set_up_takes_nothing_from_its_steps() -> None:
    found = others(BUSY_AT_FIRST, Room(2), (28, 55))
    assert found is not None
    assert (found.cores, found.stolen) == pytest.approx((0.1, 0.0))
    whole = others(BUSY_AT_FIRST, Room(2))
    assert whole is not None
    assert whole.cores > 0.6


def test_steps_between_two_looks_are_told_by_all_of_them() -> None:
    assert others(BUSY_AT_FIRST, Room(2), (41, 42)) == others(BUSY_AT_FIRST, Room(2))


def test_a_look_that_began_before_the_steps_counts_only_if_no_other_does() -> None:
    assert within(AT, (28, 55)).tolist() == [False, False, False, True, True]
    assert within(AT, (28, 35)).tolist() == [False, False, True, False, False]


def sampled(**series: float) -> Samples:
    return Samples({f"cpu.{name}": (AT, (value,) * len(AT)) for name, value in series.items()}, ())


BOUND = {"cpus": 2, "cpu_list": "2-3", "cpus_of_machine": 16, "processors": 2}


def test_what_others_take_of_processors_that_the_run_may_not_use_is_nothing_to_it() -> None:
    # A node of a cluster: two of sixteen processors are ours, and others keep eight busy.
    found = others(sampled(foreign=800.0, contending=3.0, allowed=200.0), room([BOUND]))
    assert found is not None
    assert (found.cores, found.processors) == pytest.approx((0.03, 2))
    contended = others(sampled(foreign=800.0, contending=150.0, allowed=200.0), room([BOUND]))
    assert contended is not None
    assert contended.cores == pytest.approx(1.5)


def test_where_it_was_not_sampled_others_took_what_fits_nowhere_else() -> None:
    few = others(sampled(foreign=800.0, stolen=160.0), room([BOUND]))
    assert few is not None
    assert (few.cores, few.stolen, few.processors) == pytest.approx((0.0, 0.2, 2))
    many = others(sampled(foreign=1500.0), room([BOUND]))
    assert many is not None
    assert many.cores == pytest.approx(1.0)


def test_a_quota_is_not_shared_with_others() -> None:
    quota = {"cpus": 16, "cpu_list": "0-15", "cpus_of_machine": 16, "processors": 4}
    assert room([quota]) == Room(16, 16, 4)
    for foreign, cores in ((800.0, 0.0), (1400.0, 2.0)):
        found = others(sampled(foreign=foreign), room([quota]))
        assert found is not None
        assert (found.cores, found.processors) == pytest.approx((cores, 4))


def test_ranks_have_the_processors_of_all_of_them() -> None:
    ranks = [BOUND | {"cpu_list": f"{2 * rank}-{2 * rank + 1}"} for rank in range(4)]
    assert room(ranks) == Room(16, 8)
    assert room([{"cpus": 4, "cpu_list": "no list"}]) == Room(4, 4)
    assert room([]) == Room()
    unknown = others(sampled(foreign=100.0), Room())
    assert unknown is not None
    assert unknown.processors is None
