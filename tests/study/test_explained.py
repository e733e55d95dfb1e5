"""Two runs compared: what was set otherwise, what that explains, which causes went or came."""

import pytest
from msgspec.structs import replace

from gapless.catalogue.examples import example_facts
from gapless.catalogue.examples.example_facts import loader, machine, optimizer
from gapless.model.comparison import ChargeDelta, FactDelta
from gapless.model.facts import Facts
from gapless.model.run import CpuContention
from gapless.study.explained import (
    explain_groups,
    find_fact_deltas,
    find_load_delta,
    is_other_work,
)

BEFORE = example_facts.gpu(loader(num_workers=0, batch_size=64))
AFTER = example_facts.gpu(loader(num_workers=4, batch_size=64))


def names(a: Facts | None, b: Facts | None) -> set[str]:
    return {delta.name for delta in find_fact_deltas(a, b)}


def test_equal_runs_differ_in_nothing() -> None:
    assert find_fact_deltas(BEFORE, BEFORE) == ()


def test_a_trace_has_no_facts_to_compare() -> None:
    assert find_fact_deltas(BEFORE, None) == ()


def test_a_setting_is_told_with_both_values_and_its_line() -> None:
    (delta,) = (delta for delta in find_fact_deltas(BEFORE, AFTER) if delta.name == "num_workers")
    assert (delta.subject, delta.a, delta.b) == ("loader", "0", "4")
    assert delta.location == AFTER.loaders[0].location


def test_settings_of_each_optimizer_are_compared() -> None:
    before = example_facts.gpu(optimizer(foreach=None))
    after = example_facts.gpu(optimizer(foreach=True))
    assert names(before, after) == {"foreach"}


def test_what_one_run_did_not_record_is_no_difference() -> None:
    machine = replace(BEFORE.machine, cpus=None)
    assert find_fact_deltas(BEFORE, replace(BEFORE, machine=machine, precision=None)) == ()


def test_a_loader_that_only_evaluates_is_left_out() -> None:
    evaluating = replace(loader(num_workers=7), trains=False)
    both = replace(BEFORE, loaders=(*BEFORE.loaders, evaluating))
    assert find_fact_deltas(BEFORE, both) == ()


@pytest.mark.parametrize(("change", "is_other"), [({"batch_size": 32}, True), ({}, False)])
def test_another_batch_size_is_other_work(change: dict[str, int], *, is_other: bool) -> None:
    after = example_facts.gpu(loader(**{"num_workers": 0, "batch_size": 64, **change}))
    assert is_other_work(find_fact_deltas(BEFORE, after)) is is_other


def test_a_part_is_explained_by_the_settings_that_move_it() -> None:
    facts = (
        FactDelta("loader", "num_workers", "0", "4"),
        FactDelta("precision", "autocast", None, "bf16"),
    )
    groups = (
        ChargeDelta("data", 30_000, 1_000),
        ChargeDelta("compute", 20_000, 10_000),
        ChargeDelta("io", 9_000, 4_000),
        ChargeDelta("sync", 100, 0),
    )
    explained = explain_groups(groups, facts)
    assert explained == {"data": facts[:1], "compute": facts[1:], "io": ()}


def test_fewer_workers_do_not_explain_shorter_waits() -> None:
    fewer = FactDelta("loader", "num_workers", "1", "0")
    assert explain_groups((ChargeDelta("data", 9_000, 4_000),), (fewer,)) == {"data": ()}
    assert explain_groups((ChargeDelta("data", 4_000, 9_000),), (fewer,)) == {"data": (fewer,)}


def test_a_larger_batch_explains_no_shorter_step_and_nothing_of_the_recorder() -> None:
    larger = FactDelta("loader", "batch_size", "64", "128")
    groups = (ChargeDelta("compute", 9_000, 4_000), ChargeDelta("observer", 1_000, 4_000))
    assert explain_groups(groups, (larger,)) == {"compute": (), "observer": ()}


def test_what_makes_a_step_other_work_is_named_first() -> None:
    facts = (
        FactDelta("precision", "autocast", None, "bf16"),
        FactDelta("model", "parameters", "10", "900"),
    )
    explained = explain_groups((ChargeDelta("compute", 1_000, 9_000),), facts)
    assert [fact.name for fact in explained["compute"]] == ["parameters", "autocast"]


def test_another_machine_is_a_difference() -> None:
    after = example_facts.gpu(loader(num_workers=0, batch_size=64), machine(device="NVIDIA L4"))
    assert "device" in names(BEFORE, after)


def test_what_others_took_of_the_processors_explains_slower_work_alone() -> None:
    quiet, busy = CpuContention(0.1, None, 4), CpuContention(2.5, None, 4)
    facts = find_load_delta(quiet, busy)
    assert facts == (FactDelta("machine", "processors taken by others", "0.1", "2.5"),)
    slower, faster = ChargeDelta("compute", 10, 30), ChargeDelta("data", 30, 10)
    assert explain_groups((slower, faster), facts) == {"compute": facts, "data": ()}
    assert find_load_delta(quiet, CpuContention(0.4, None, 4)) == ()
    assert find_load_delta(quiet, None) == find_load_delta(CpuContention(0, None, None), busy) == ()
