"""What makes the late rank late: by marks of all its steps, and named by its own cause."""

import numpy as np
import pytest
from msgspec.structs import replace

from gapless.catalogue.examples.evidence import with_recorded
from gapless.catalogue.examples.example_facts import cpu, ddp, gpu, world
from gapless.catalogue.examples.parts import MS, operator
from gapless.catalogue.examples.ranks import (
    Leaves,
    evidence_of_ranks,
    hot_line,
    with_rank_lines,
)
from gapless.catalogue.queries.ranks import collectives
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT, Rank
from gapless.catalogue.queries.ranks.rank_waits import find_own_share, find_ranks
from gapless.catalogue.queries.trace_facts import IN_PROCESS_ITERATOR
from gapless.catalogue.rules import RULES
from gapless.catalogue.rules.ranks.straggling_rank import straggling_rank
from gapless.model.change import Drop, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection
from gapless.model.run import CpuContention
from gapless.pricing.charged import charge_changes
from gapless.pricing.diagnose import run_rules
from gapless.pricing.simulators.late_rank import name_late_rank
from gapless.pricing.simulators.multi_rank import raise_by_samples

WORLD = (ddp(), world(ranks=2))
ALIKE: Leaves = {"busy.math": 30, "comm.exposed": 5, "idle.data.main": 5}


def with_marks(evidence: Evidence, *data_ms: float, step_ms: float = 80) -> Evidence:
    """Return evidence whose ranks waited so long for data in each of their un-profiled steps."""
    timeline = evidence.recorded.timeline
    first = timeline.processes[0]
    processes = tuple(
        replace(
            first,
            rank=rank,
            mean_ns=round(step_ms * MS),
            stepping={
                "data.other": round(100 * wait_ms * MS),
                "step": round(100 * (step_ms - wait_ms) * MS),
            },
        )
        for rank, wait_ms in enumerate(data_ms)
    )
    return with_recorded(evidence, timeline=replace(timeline, processes=processes))


def mean_waits(ranks: tuple[Rank, ...]) -> list[float]:
    return [float(rank.waits.mean()) / MS for rank in ranks]


def test_steps_of_windows_have_what_marks_show_of_all_steps() -> None:
    ranks = find_ranks(with_marks(evidence_of_ranks(cpu(*WORLD), ALIKE, ALIKE), 5, 45))
    assert [rank.mean("idle.data") / MS for rank in ranks] == pytest.approx([5, 45])
    assert mean_waits(ranks) == pytest.approx([40, 0])
    lengths = [rank.lengths for rank in ranks]
    assert np.allclose(lengths[0], lengths[1])


def test_marks_that_windows_agree_with_change_nothing() -> None:
    evidence = evidence_of_ranks(cpu(*WORLD), ALIKE, ALIKE)
    assert find_ranks(with_marks(evidence, 5, 5.5)) == find_ranks(evidence)


def test_marks_of_a_host_are_not_played_into_the_steps_of_its_device() -> None:
    evidence = evidence_of_ranks(gpu(*WORLD), ALIKE, ALIKE)
    assert not any(rank.played for rank in find_ranks(with_marks(evidence, 5, 45)))


def test_a_rank_without_windows_is_played_from_its_marks() -> None:
    evidence = evidence_of_ranks(cpu(ddp(), world(ranks=3)), ALIKE, ALIKE)
    ranks = find_ranks(with_marks(evidence, 5, 5, 25))
    assert [rank.rank for rank in ranks] == [0, 1, 2]
    assert mean_waits(ranks) == pytest.approx([20, 20, 0])


def test_evening_out_a_rank_may_give_what_its_marks_have_more_than_the_others() -> None:
    alike = evidence_of_ranks(cpu(*WORLD), ALIKE, ALIKE)
    charges = [
        charge_changes(evidence, (Drop((STRAGGLER_WAIT,)),)).max_share
        for evidence in (with_marks(alike, 5, 25), with_marks(alike, 5, 5), alike)
    ]
    assert charges == pytest.approx([20 / 40, 0, 0])


def detect(evidence: Evidence) -> list[Detection]:
    detections, _ = run_rules(evidence, RULES)
    return name_late_rank(evidence, detections, RULES)


def test_a_late_rank_is_named_by_its_own_cause_and_priced_as_evened_out() -> None:
    late = {"busy.math": 25, "comm.exposed": 5, "idle.data.main": 50}
    other = {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 50}
    iterator = operator(IN_PROCESS_ITERATOR, calls=1, host_ms=25)
    (detection,) = detect(evidence_of_ranks(None, other, late, parts=(iterator,)))
    assert detection.code == "G101"
    assert detection.rank == 1
    assert "the other waits 50.0 ms of each 80.0 ms step for it" in detection.summary
    assert detection.changes == (Drop((STRAGGLER_WAIT,)),)


def test_a_late_rank_whose_excess_no_rule_explains_is_late_and_no_more() -> None:
    late = {"busy.math": 25, "comm.exposed": 5, "idle.host.unframed": 10}
    other = {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 10}
    detections = detect(evidence_of_ranks(cpu(*WORLD), other, late))
    assert [(row.code, row.rank) for row in detections if row.rank is not None] == [("G601", 1)]


@pytest.mark.parametrize(("cores", "codes"), [(0.0, {"G601"}), (1.5, set[str]())])
def test_a_host_that_is_slower_at_no_line_may_have_lost_its_processor_to_others(
    cores: float, codes: set[str]
) -> None:
    late = {"busy.math": 25, "comm.exposed": 5, "idle.host.unframed": 10}
    other = {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 10}
    alone = evidence_of_ranks(cpu(*WORLD), other, late)
    evidence = with_recorded(alone, contention=CpuContention(cores, 0.0, 2))
    assert {row.code for row in detect(evidence) if row.rank is not None} == codes
    lines = ((hot_line(77, 0.9),), (hot_line(77, 0.3), hot_line(79, 0.6)))
    assert 1 in {row.rank for row in detect(with_rank_lines(evidence, *lines))}


@pytest.mark.parametrize(("own_share", "is_late"), [(0.0, False), (0.12, False), (0.3, True)])
def test_what_windows_may_show_by_chance_samples_of_the_whole_run_prove(
    own_share: float, is_late: bool
) -> None:
    usual = {"busy.math": 25, "comm.exposed": 5}
    rank_0 = (usual | {"comm.straggler_wait": 40}, usual | {"idle.host.unframed": 20})
    rank_1 = (usual | {"idle.host.unframed": 40}, usual | {"comm.straggler_wait": 20})
    alone = evidence_of_ranks(cpu(*WORLD), rank_0, rank_1)
    lines = ((hot_line(77, 0.9), hot_line(79, 0.05)), (hot_line(77, 0.6), hot_line(79, own_share)))
    assert (1 in {row.rank for row in detect(with_rank_lines(alone, *lines))}) == is_late


def test_a_rank_that_exchanges_take_longer_is_not_late() -> None:
    late = {"busy.math": 26, "comm.exposed": 5, "idle.comm.host": 10}
    other = {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 11}
    detections = detect(evidence_of_ranks(cpu(*WORLD), other, late))
    assert "G601" not in {row.code for row in detections}


def test_what_all_ranks_have_is_no_cause_of_one() -> None:
    late = {"busy.math": 25, "comm.exposed": 5, "idle.data.main": 50}
    other = {"busy.math": 25, "comm.exposed": 5, "comm.straggler_wait": 10, "idle.data.main": 40}
    iterator = operator(IN_PROCESS_ITERATOR, calls=1, host_ms=45)
    detections = detect(evidence_of_ranks(None, other, late, parts=(iterator,)))
    assert {row.code: row.rank for row in detections} == {"G601": 1, "G101": None}


def test_samples_of_workers_make_a_rank_s_own_share_no_surer() -> None:
    evidence = evidence_of_ranks(cpu(*WORLD), ALIKE, ALIKE)
    own = (replace(hot_line(5, 0.2), function="take_notes"), hot_line(77, 0.8))
    worker = replace(hot_line(9, 0.9), thread="worker", count=5000)
    shares = [
        find_own_share(with_rank_lines(evidence, (hot_line(77, 1.0),), lines), 1)
        for lines in (own, (*own, worker))
    ]
    assert shares[0] == shares[1]


def test_evening_out_gives_what_samples_show_or_half_way_to_what_another_rank_leaves() -> None:
    evidence = with_rank_lines(
        evidence_of_ranks(
            cpu(*WORLD), {**ALIKE, "comm.straggler_wait": 40}, {**ALIKE, "idle.host.python": 40}
        ),
        (hot_line(77, 1.0),),
        (hot_line(77, 0.6), replace(hot_line(90, 0.4), function="take_notes")),
    )
    detection = replace(straggling_rank.detection("", Drop((STRAGGLER_WAIT,))), rank=1)
    low_price = Prediction(Estimate(1.0, 1.1, 1.2), "host")
    raised = raise_by_samples(evidence, detection, low_price).speedup
    assert raised is not None
    assert raised.mid == pytest.approx(1 / 0.6)
    alone = with_rank_lines(
        evidence, (hot_line(77, 1.0),), (replace(hot_line(90, 1.0), function="f"),)
    )
    raised = raise_by_samples(alone, detection, low_price).speedup
    assert raised is not None
    assert (raised.low, raised.mid) == pytest.approx((2.0, 4.0), rel=0.05)


def test_ranks_that_send_may_have_windows_of_other_steps() -> None:
    waiting, late = {"busy.math": 40, STRAGGLER_WAIT: 40}, {"busy.math": 40, "idle.data.main": 40}
    sends = operator(collectives.SEND_CALL, calls=4, host_ms=1)
    evidence = evidence_of_ranks(gpu(*WORLD), waiting, late, parts=(sends,))
    account = evidence.study.account
    account = replace(account, rows=account.rows[:-1])
    steps_apart = tuple(
        replace(row, row=replace(row.row, step=100 * (row.row.rank or 0) + (row.row.step or 0)))
        for row in account.rows
    )
    study = replace(evidence.study, account=replace(account, rows=steps_apart))
    (detection,), _ = run_rules(replace(evidence, study=study), (straggling_rank,))
    assert detection.rank == 1
