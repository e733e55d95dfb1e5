"""What samples at lines that call collectives are worth: those meant, without waits for ranks."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import with_recorded
from gapless.catalogue.examples.example_facts import cpu, ddp, gpu, optimizer, world
from gapless.catalogue.examples.parts import operator
from gapless.catalogue.examples.ranks import (
    Leaves,
    evidence_of_ranks,
    hot_line,
    with_rank_lines,
)
from gapless.catalogue.queries.ranks.collectives import BY_NAME, sampled_share
from gapless.catalogue.rules.ranks.meeting_in_step import meeting_in_step
from gapless.catalogue.rules.ranks.unhidden_collectives import unhidden_collectives
from gapless.model.change import HostChange
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.host_code import CallLine, HotLine
from gapless.model.reducer import REDUCE_CALL
from gapless.pricing.diagnose import run_rules
from gapless.pricing.simulators.account_model import predict_by_account

ALL = Estimate(1.0, 1.0, 1.0)
WORK: Leaves = {"busy.math": 20, "comm.exposed": 20}


def with_calls(
    rank_steps: Sequence[Leaves | Sequence[Leaves]],
    *rank_lines: tuple[HotLine, ...],
    n_reductions: int = 1,
) -> Evidence:
    """Return evidence of two ranks with a barrier in each step, and lines that call collectives."""
    numbers = {line.line for lines in rank_lines for line in lines}
    calls = (
        CallLine("train.py", number, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.1)
        for number in sorted(numbers)
    )
    parts = (
        operator("c10d::barrier", calls=2, host_ms=1),
        operator(REDUCE_CALL, calls=2 * n_reductions, host_ms=19),
        *calls,
    )
    facts = cpu(ddp(), world(ranks=2))
    return with_rank_lines(evidence_of_ranks(facts, *rank_steps, parts=parts), *rank_lines)


def price(evidence: Evidence) -> Estimate:
    (detection,), _ = run_rules(evidence, (meeting_in_step,))
    speedup = predict_by_account(evidence, detection.changes).speedup
    assert speedup is not None
    return speedup


def test_a_reduction_by_hand_is_no_barrier() -> None:
    lines = (hot_line(77, 0.02), hot_line(80, 0.4))
    evidence = with_calls((WORK, WORK), lines, lines, n_reductions=9)
    assert price(evidence) == price(with_recorded(evidence, rank_lines={}))


def test_a_barrier_is_worth_what_its_line_is_sampled_beside_one_exchange() -> None:
    lines = (hot_line(77, 0.4),)
    work = {"busy.math": 36, "comm.exposed": 4}
    assert price(with_calls((work, work), lines, lines)).mid == pytest.approx(1 / 0.6)


def test_waits_for_ranks_in_turn_move_to_the_next_collective() -> None:
    late = {"busy.math": 36, "comm.exposed": 3}
    early = {"busy.math": 28, "comm.exposed": 3, "comm.straggler_wait": 8}
    lines = (hot_line(77, 0.11),)
    evidence = with_calls(((late, early), (early, late)), lines, lines)
    assert price(evidence).mid < 1.05


def test_a_share_is_as_sure_as_the_samples_of_the_rank_that_has_it() -> None:
    few = (hot_line(77, 0.2),)
    many = (replace(hot_line(77, 0.4), count=5000),)
    shares = [
        sampled_share(with_calls((WORK, WORK), few, lines), BY_NAME, ("barrier",), ALL, 1)
        for lines in (few, many)
    ]
    assert shares[0] == shares[1]


def test_waits_stay_in_all_collectives_that_remain_beside_buckets() -> None:
    late = {"busy.math": 37, "comm.exposed": 3}
    early = {"busy.math": 29, "comm.exposed": 3, "comm.straggler_wait": 8}
    call = CallLine("train.py", 77, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.5)
    parts = (operator("c10d::barrier", 20, 1), operator(REDUCE_CALL, 20, 1), call)
    facts = cpu(optimizer(parameters=1000), world(ranks=2))
    evidence = evidence_of_ranks(facts, (late, early), (early, late), parts=parts)
    lines = (hot_line(77, 0.5),)
    (detection,), _ = run_rules(with_rank_lines(evidence, lines, lines), (unhidden_collectives,))
    (change,) = detection.changes
    assert isinstance(change, HostChange)
    # a half is of these calls, nine of ten of which go; eleven of twenty meetings stay
    assert 1 - change.factor.mid == pytest.approx(0.5 * 0.9 * (0.5 - 0.1 * 0.55**0.5))


@pytest.mark.parametrize(
    ("busy_ms", "gone_share"),
    [(4, 0.4 * (1 - 0.02 - 0.2)), (34, 0.09 * (1 - 0.02 - 0.2))],  # a device is nearly full
)
def test_a_host_saves_the_starts_of_calls_as_far_as_its_device_waits(
    busy_ms: float, gone_share: float
) -> None:
    work = {"busy.math": busy_ms, "comm.exposed": 2.4}
    steps = [{**work, leaf: 37.6 - busy_ms} for leaf in ("idle.host", "comm.straggler_wait")]
    call = CallLine("train.py", 77, "train", "torch/distributed/c10d_logger.py", "wrapper", 0.4)
    parts = (operator(REDUCE_CALL, 2 * 50, 20), operator("aten::div_", 2 * 50, 4), call)
    facts = gpu(optimizer(parameters=1000), world(ranks=2))
    lines = (hot_line(77, 0.4),)
    evidence = with_rank_lines(evidence_of_ranks(facts, *steps, parts=parts), lines, lines)
    (detection,), _ = run_rules(evidence, (unhidden_collectives,))
    (change,) = detection.changes
    factor = change.factor if isinstance(change, HostChange) else ALL
    assert 1 - factor.mid == pytest.approx(gone_share)
