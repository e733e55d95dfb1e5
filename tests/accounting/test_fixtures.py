"""Real traces of small trainings on GPUs: what was planted in each must show.

``benchmarks/recording/cases.py`` says what each training does.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapless.accounting import gather_collectives, match_collectives, partition, sum_ledgers
from gapless.accounting.charges import Bool
from gapless.model import category
from gapless.model.account import Account
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import PHASES, Ledger
from gapless.model.trace import Trace
from tests.traces import KINETO_FILES, TRACES, read_fixture

DATA = Path(__file__).parents[1] / "data"
MS = 1_000_000


@cache
def read_trace(case: str) -> Trace:
    return read_fixture(case)


@cache
def make_ledger(case: str) -> Ledger:
    return partition(read_trace(case))


def read_facts(case: str) -> dict[str, Any]:
    return json.loads((DATA / f"{case}.facts.json").read_text(encoding="utf-8"))


def account_of(case: str) -> Account:
    return sum_ledgers([make_ledger(case)])


def share(case: str, prefix: str) -> float:
    totals = account_of(case)
    return sum(ns for leaf, ns in totals.leaves.items() if leaf.startswith(prefix)) / totals.wall_ns


def step_sum(ledger: Ledger, leaf: str) -> dict[int, int]:
    """Return the nanoseconds of a leaf in each step."""
    row_numbers = ledger.row[ledger.leaf == LEAF[leaf]]
    length = (ledger.end - ledger.start)[ledger.leaf == LEAF[leaf]]
    sums = np.bincount(row_numbers, length, minlength=len(ledger.rows)).astype(np.int64).tolist()
    return {row.step: ns for row, ns in zip(ledger.rows, sums, strict=True) if row.step is not None}


def test_there_are_fixtures() -> None:
    assert len(TRACES) == 14
    assert len(KINETO_FILES) == 4


@pytest.mark.parametrize("case", TRACES)
def test_every_nanosecond_of_every_step_has_one_cause(case: str) -> None:
    ledger, facts = make_ledger(case), read_facts(case)
    is_scheduled = facts["scheduled"]
    assert ledger.step_rule.startswith("ProfilerStep#" if is_scheduled else "Optimizer.step#Adam")
    assert len(ledger.rows) == facts["steps"] - (0 if is_scheduled else 1)
    walls = [row.end - row.start for row in ledger.rows]
    sums = np.bincount(ledger.row, ledger.end - ledger.start, minlength=len(walls)).astype(np.int64)
    assert sums.tolist() == walls
    if is_scheduled:
        first_index = facts["first_index"]
        assert [row.step for row in ledger.rows] == list(
            range(first_index, first_index + facts["steps"])
        )
    assert sum(account_of(case).leaves.values()) == account_of(case).wall_ns


@pytest.mark.parametrize("case", TRACES)
def test_a_profiled_step_is_not_shorter_than_one_without_the_profiler(case: str) -> None:
    # The faults of two_ranks lie in every other step, so that a median says little.
    totals, facts = account_of(case), read_facts(case)
    kind = "mean_step_ns" if "two_ranks" in case else "median_step_ns"
    assert totals.steps is not None
    assert totals.wall_ns / totals.steps > 0.9 * facts["unprofiled"][kind]


@pytest.mark.parametrize("case", [case for case in TRACES if case != "two_ranks.rank1"])
def test_little_of_a_clean_trace_is_unknown(case: str) -> None:
    assert account_of(case).groups["unknown"] < 0.02 * account_of(case).wall_ns


def test_tiny_operators_wait_for_the_host() -> None:
    assert (
        account_of("eager_launch_bound").groups["host"]
        > 0.8 * account_of("eager_launch_bound").wall_ns
    )
    assert share("eager_launch_bound", "busy.tc_math") == 0


def test_reading_the_loss_back_in_every_second_step_is_a_sync() -> None:
    syncs = step_sum(make_ledger("eager_launch_bound"), "idle.sync.return")
    odd = {step for step, ns in syncs.items() if ns}
    assert odd == {step for step in syncs if step % 2}


@pytest.mark.parametrize(
    ("case", "min_share"), [("cuda_graph_replay", 0.03), ("reduce_overhead", 0.01)]
)
def test_graphs_have_gaps_of_their_own(case: str, min_share: float) -> None:
    assert share(case, "idle.graph") > min_share
    events, ledger = read_trace(case).events, make_ledger(case)
    rows = np.flatnonzero(ledger.leaf == LEAF["idle.graph"])
    culprits = ledger.culprit[rows]
    launches = events.correlation[graph_launches(read_trace(case))]
    assert np.isin(events.correlation[culprits], launches).all()


def graph_launches(trace: Trace) -> Bool:
    names = np.array([name.endswith("GraphLaunch") for name in trace.names], bool)
    return names[trace.events.name] & np.isin(trace.events.category, category.CALLS)


def test_a_replayed_graph_keeps_the_device_at_work() -> None:
    assert share("cuda_graph_replay", "busy") > 0.85
    assert share("cuda_graph_replay", "idle.host") == 0


def test_a_prefetch_on_its_own_stream_is_partly_hidden() -> None:
    ledger = make_ledger("side_stream_copies")
    assert ledger.facets.hidden_copy.sum() > 0.1 * MS
    assert share("side_stream_copies", "copy.h2d.pinned") > 0
    assert share("side_stream_copies", "copy.h2d.pageable") > 0.1
    copies = step_sum(ledger, "copy.d2h")
    assert {step for step, ns in copies.items() if ns} == {step for step in copies if step % 4 == 3}


def test_mixed_precision_uses_tensor_cores() -> None:
    assert share("amp_bf16", "busy.tc_math") > 0.25
    assert share("amp_bf16", "busy.cast") > 0.01
    assert share("amp_bf16", "busy.tc_eligible_not_used") < 0.05
    assert 0 < share("amp_fp16_scaler", "busy.gradclip_scaler") < 0.05
    assert share("amp_fp16_scaler", "busy.tc_math") > 0.01


def test_full_precision_does_not() -> None:
    ledger = make_ledger("eager_launch_bound")
    whys = set(ledger.facets.why[ledger.leaf == LEAF["busy.tc_eligible_not_used"]].tolist())
    assert whys == {1}  # fp32_no_tf32
    assert set(ledger.facets.why[ledger.leaf != LEAF["busy.tc_eligible_not_used"]].tolist()) == {0}


def test_a_reentrant_checkpoint_runs_its_forward_again() -> None:
    ledger = make_ledger("checkpointing_reentrant")
    length = ledger.end - ledger.start
    forward_ns = length[ledger.facets.phase == PHASES.index("forward")].sum()
    is_again = ledger.facets.recompute == 1
    assert 0.7 < length[is_again].sum() / forward_ns < 1.1
    assert set(ledger.facets.phase[is_again].tolist()) == {PHASES.index("backward")}
    assert not make_ledger("eager_launch_bound").facets.recompute.any()


@pytest.mark.parametrize("case", ["eager_launch_bound", "amp_bf16", "checkpointing"])
def test_steps_have_a_forward_a_backward_and_an_optimizer(case: str) -> None:
    ledger = make_ledger(case)
    busy = np.array([leaf.startswith("busy") for leaf in LEAVES])[ledger.leaf]
    for phase in ("forward", "backward", "optimizer"):
        steps = set(ledger.row[busy & (ledger.facets.phase == PHASES.index(phase))].tolist())
        assert steps == set(range(8)), phase
    assert not ledger.facets.phase[~busy & (ledger.culprit < 0)].any()


def test_a_loader_with_workers_keeps_the_device_waiting() -> None:
    assert share("loader_workers", "idle.data.unstaged") > 0.5
    assert share("loader_workers", "idle.data.main") == 0


def test_a_loader_in_the_process_does_so_itself() -> None:
    assert share("stacks_memory", "idle.data.main") > 0.8
    assert share("stacks_memory", "idle.host.unframed") == 0


def test_python_functions_are_blamed_where_stacks_were_recorded() -> None:
    ledger, trace = make_ledger("stacks_memory"), read_trace("stacks_memory")
    python = ledger.culprit[ledger.leaf == LEAF["idle.host.python"]]
    functions = python[python >= 0]
    assert len(functions) > 0.9 * len(python)
    assert set(trace.events.category[functions].tolist()) == {category.PYTHON_FUNCTION}


def test_accumulation_is_one_step() -> None:
    assert account_of("accumulation_ranges").steps == 5
    assert [row.left_out for row in make_ledger("accumulation_ranges").rows] == [
        True,
        *[False] * 5,
        True,
    ]


def test_every_launch_is_recorded_where_recording_began_before_it() -> None:
    for case in set(TRACES) - {"amp_bf16", "cuda_graph_replay"}:
        assert make_ledger(case).launches_recorded == 1.0, case
    assert 0.7 < (make_ledger("cuda_graph_replay").launches_recorded or 0) < 1


def test_the_rank_that_was_late_is_blamed_in_the_steps_in_which_it_was() -> None:
    traces = [read_trace(f"two_ranks.rank{rank}") for rank in (0, 1)]
    early_arrivals, late_arrivals = match_collectives(
        [gather_collectives(trace) for trace in traces]
    )
    assert (early_arrivals.n_unmatched, late_arrivals.n_unmatched) == (0, 0)
    ledger = partition(traces[0], early_arrivals)
    waits = step_sum(ledger, "comm.straggler_wait")
    planted = {step for step in waits if step % 4 in (1, 2)}  # 10 ms, on the host or the device
    assert planted == {5, 6, 9, 10}
    assert all((ns > 9 * MS) == (step in planted) for step, ns in waits.items())
    is_long = (ledger.leaf == LEAF["comm.straggler_wait"]) & (ledger.end - ledger.start > MS)
    assert set(ledger.facets.peer[is_long].tolist()) == {1}
    late_ledger = partition(traces[1], late_arrivals)
    assert max(step_sum(late_ledger, "comm.straggler_wait").values()) < MS


def test_one_rank_alone_shows_the_wait_but_not_for_whom() -> None:
    waits = step_sum(make_ledger("two_ranks.rank0"), "comm.wait_estimated")
    assert {step for step, ns in waits.items() if ns > 8 * MS} == {5, 6, 9, 10}
    assert set(make_ledger("two_ranks.rank0").facets.peer.tolist()) == {-1}


def test_a_sleep_without_stacks_stays_unknown() -> None:
    silent = step_sum(make_ledger("two_ranks.rank1"), "idle.host.unframed")
    assert {step for step, ns in silent.items() if ns > 8 * MS} == {5, 9}
