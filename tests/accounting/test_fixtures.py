"""Real traces of small trainings on GPUs: what was planted in each must show.

``benchmarks/recording/cases.py`` says what each training does.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapless.accounting import account, collectives, match, partition
from gapless.accounting.charges import Bool
from gapless.formats import read
from gapless.model import category
from gapless.model.account import Account
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import PHASES, Ledger
from gapless.model.trace import Trace

DATA = Path(__file__).parents[1] / "data"
CASES = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))
MS = 1_000_000


@cache
def trace(case: str) -> Trace:
    return read(DATA / f"{case}.json.gz")


@cache
def ledger(case: str) -> Ledger:
    return partition(trace(case))


def facts(case: str) -> dict[str, Any]:
    return json.loads((DATA / f"{case}.facts.json").read_text(encoding="utf-8"))


def summed(case: str) -> Account:
    return account([ledger(case)])


def share(case: str, prefix: str) -> float:
    made = summed(case)
    return sum(ns for leaf, ns in made.leaves.items() if leaf.startswith(prefix)) / made.wall_ns


def step_sum(made: Ledger, leaf: str) -> dict[int, int]:
    """Give the nanoseconds of a leaf in each step."""
    at = made.row[made.leaf == LEAF[leaf]]
    length = (made.end - made.start)[made.leaf == LEAF[leaf]]
    sums = np.bincount(at, length, minlength=len(made.rows)).astype(np.int64).tolist()
    return {row.step: ns for row, ns in zip(made.rows, sums, strict=True) if row.step is not None}


def test_there_are_fixtures() -> None:
    assert len(CASES) == 14


@pytest.mark.parametrize("case", CASES)
def test_every_nanosecond_of_every_step_has_one_cause(case: str) -> None:
    made, told = ledger(case), facts(case)
    scheduled = told["scheduled"]
    assert made.step_rule.startswith("ProfilerStep#" if scheduled else "Optimizer.step#Adam")
    assert len(made.rows) == told["steps"] - (0 if scheduled else 1)
    walls = [row.end - row.start for row in made.rows]
    sums = np.bincount(made.row, made.end - made.start, minlength=len(walls)).astype(np.int64)
    assert sums.tolist() == walls
    if scheduled:
        first = told["first_index"]
        assert [row.step for row in made.rows] == list(range(first, first + told["steps"]))
    assert sum(summed(case).leaves.values()) == summed(case).wall_ns


@pytest.mark.parametrize("case", CASES)
def test_a_profiled_step_is_not_shorter_than_one_without_the_profiler(case: str) -> None:
    # The faults of two_ranks lie in every other step, so that a median says little.
    made, told = summed(case), facts(case)
    kind = "mean_step_ns" if "two_ranks" in case else "median_step_ns"
    assert made.steps is not None
    assert made.wall_ns / made.steps > 0.9 * told["unprofiled"][kind]


@pytest.mark.parametrize("case", [case for case in CASES if case != "two_ranks.rank1"])
def test_little_of_a_clean_trace_is_unknown(case: str) -> None:
    assert summed(case).groups["unknown"] < 0.02 * summed(case).wall_ns


def test_tiny_operators_wait_for_the_host() -> None:
    assert summed("eager_launch_bound").groups["host"] > 0.8 * summed("eager_launch_bound").wall_ns
    assert share("eager_launch_bound", "busy.tc_math") == 0


def test_reading_the_loss_back_in_every_second_step_is_a_sync() -> None:
    syncs = step_sum(ledger("eager_launch_bound"), "idle.sync.return")
    odd = {step for step, ns in syncs.items() if ns}
    assert odd == {step for step in syncs if step % 2}


@pytest.mark.parametrize(
    ("case", "least"), [("cuda_graph_replay", 0.03), ("reduce_overhead", 0.01)]
)
def test_graphs_have_gaps_of_their_own(case: str, least: float) -> None:
    assert share(case, "idle.graph") > least
    events, made = trace(case).events, ledger(case)
    rows = np.flatnonzero(made.leaf == LEAF["idle.graph"])
    blamed = made.culprit[rows]
    launches = events.correlation[graph_launches(trace(case))]
    assert np.isin(events.correlation[blamed], launches).all()


def graph_launches(given: Trace) -> Bool:
    names = np.array([name.endswith("GraphLaunch") for name in given.names], bool)
    return names[given.events.name] & np.isin(given.events.category, category.CALLS)


def test_a_replayed_graph_keeps_the_device_at_work() -> None:
    assert share("cuda_graph_replay", "busy") > 0.85
    assert share("cuda_graph_replay", "idle.host") == 0


def test_a_prefetch_on_its_own_stream_is_partly_hidden() -> None:
    made = ledger("side_stream_copies")
    assert made.facets.hidden_copy.sum() > 0.1 * MS
    assert share("side_stream_copies", "copy.h2d.pinned") > 0
    assert share("side_stream_copies", "copy.h2d.pageable") > 0.1
    copies = step_sum(made, "copy.d2h")
    assert {step for step, ns in copies.items() if ns} == {step for step in copies if step % 4 == 3}


def test_mixed_precision_uses_tensor_cores() -> None:
    assert share("amp_bf16", "busy.tc_math") > 0.25
    assert share("amp_bf16", "busy.cast") > 0.01
    assert share("amp_bf16", "busy.tc_eligible_not_used") < 0.05
    assert 0 < share("amp_fp16_scaler", "busy.gradclip_scaler") < 0.05
    assert share("amp_fp16_scaler", "busy.tc_math") > 0.01


def test_full_precision_does_not() -> None:
    made = ledger("eager_launch_bound")
    whys = set(made.facets.why[made.leaf == LEAF["busy.tc_eligible_not_used"]].tolist())
    assert whys == {1}  # fp32_no_tf32
    assert set(made.facets.why[made.leaf != LEAF["busy.tc_eligible_not_used"]].tolist()) == {0}


def test_a_reentrant_checkpoint_runs_its_forward_again() -> None:
    made = ledger("checkpointing_reentrant")
    length = made.end - made.start
    forward = length[made.facets.phase == PHASES.index("forward")].sum()
    again = made.facets.recompute == 1
    assert 0.7 < length[again].sum() / forward < 1.1
    assert set(made.facets.phase[again].tolist()) == {PHASES.index("backward")}
    assert not ledger("eager_launch_bound").facets.recompute.any()


@pytest.mark.parametrize("case", ["eager_launch_bound", "amp_bf16", "checkpointing"])
def test_steps_have_a_forward_a_backward_and_an_optimizer(case: str) -> None:
    made = ledger(case)
    busy = np.array([leaf.startswith("busy") for leaf in LEAVES])[made.leaf]
    for phase in ("forward", "backward", "optimizer"):
        steps = set(made.row[busy & (made.facets.phase == PHASES.index(phase))].tolist())
        assert steps == set(range(8)), phase
    assert not made.facets.phase[~busy & (made.culprit < 0)].any()


def test_a_loader_with_workers_keeps_the_device_waiting() -> None:
    assert share("loader_workers", "idle.data.unstaged") > 0.5
    assert share("loader_workers", "idle.data.main") == 0


def test_a_loader_in_the_process_does_so_itself() -> None:
    assert share("stacks_memory", "idle.data.main") > 0.8
    assert share("stacks_memory", "idle.host.unframed") == 0


def test_python_functions_are_blamed_where_stacks_were_recorded() -> None:
    made, read_ = ledger("stacks_memory"), trace("stacks_memory")
    python = made.culprit[made.leaf == LEAF["idle.host.python"]]
    named = python[python >= 0]
    assert len(named) > 0.9 * len(python)
    assert set(read_.events.category[named].tolist()) == {category.PYTHON_FUNCTION}


def test_accumulation_is_one_step() -> None:
    assert summed("accumulation_ranges").steps == 5
    assert [row.left_out for row in ledger("accumulation_ranges").rows] == [
        True,
        *[False] * 5,
        True,
    ]


def test_every_launch_is_recorded_where_recording_began_before_it() -> None:
    for case in set(CASES) - {"amp_bf16", "cuda_graph_replay"}:
        assert ledger(case).launches_recorded == 1.0, case
    assert 0.7 < (ledger("cuda_graph_replay").launches_recorded or 0) < 1


def test_the_rank_that_was_late_is_blamed_in_the_steps_in_which_it_was() -> None:
    traces = [trace(f"two_ranks.rank{rank}") for rank in (0, 1)]
    waiting, late = match([collectives(one) for one in traces])
    assert (waiting.unmatched, late.unmatched) == (0, 0)
    made = partition(traces[0], waiting)
    waits = step_sum(made, "comm.straggler_wait")
    planted = {step for step in waits if step % 4 in (1, 2)}  # 10 ms, on the host or the device
    assert planted == {5, 6, 9, 10}
    assert all((ns > 9 * MS) == (step in planted) for step, ns in waits.items())
    long = (made.leaf == LEAF["comm.straggler_wait"]) & (made.end - made.start > MS)
    assert set(made.facets.peer[long].tolist()) == {1}
    other = partition(traces[1], late)
    assert max(step_sum(other, "comm.straggler_wait").values()) < MS


def test_one_rank_alone_shows_the_wait_but_not_for_whom() -> None:
    waits = step_sum(ledger("two_ranks.rank0"), "comm.wait_estimated")
    assert {step for step, ns in waits.items() if ns > 8 * MS} == {5, 6, 9, 10}
    assert set(ledger("two_ranks.rank0").facets.peer.tolist()) == {-1}


def test_a_sleep_without_stacks_stays_unknown() -> None:
    silent = step_sum(ledger("two_ranks.rank1"), "idle.host.unframed")
    assert {step for step, ns in silent.items() if ns > 8 * MS} == {5, 9}
