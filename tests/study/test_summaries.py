"""What a study says beside its tables: steps, leaves, differences, health, bandwidth."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import gapless
from gapless.capture.assemble import quantile, step_times
from gapless.capture.columns import group_rows, heaviest_labels
from gapless.capture.merge import merge_leaves
from gapless.capture.notes import build_health
from gapless.capture.ranks.summary import CaptureFacts, UnreadableFile
from gapless.capture.source_lines import is_library
from gapless.capture.tables import merge_tables
from gapless.capture.tables.collectives import bandwidth_factor, collective_bytes
from gapless.model.account import Account, RowAccount
from gapless.model.ledger import Row
from gapless.model.study import Leaf
from gapless.model.tables import EMPTY_TABLES, CollectiveRow, Copy, Memory, Operator, Tables
from gapless.model.trace import Collective, Count
from tests.study import writing
from tests.study.writing import call, host, kernel, op, training

US = 1000
EVIDENCE = CaptureFacts(
    path="trace.json",
    rank=None,
    world=None,
    device="NVIDIA Test",
    capability=None,
    versions=(),
    source="kineto",
    events=1000,
    dropped=(),
    repaired=(),
    truncated=False,
    resolution_ns=1,
    reader_notes=(),
    partition_notes=(),
    step_rule="ProfilerStep#",
    clock_error_ns=0,
    activities=100,
    launched=100,
    launches=100,
    host_events=500,
    has_shapes=True,
    has_stacks=True,
    has_sync_records=True,
    streams=1,
    syncs=0,
)


def account(steps: int | None = 4, **leaves: int) -> Account:
    """Return an account of 1,000 ns a row: some leaves, and ``busy.math`` for the rest."""
    row = Row(None, 0, 1 if steps else None, 0, 1000, left_out=False)
    rows = tuple(RowAccount(row, {}, {}) for _ in range(steps or 1))
    total_ns = 1000 * (steps or 1)
    leaves_ns = {name.replace("__", "."): ns for name, ns in leaves.items()}
    leaves_ns["busy.math"] = total_ns - sum(leaves_ns.values())
    return Account(total_ns, steps, leaves_ns, {}, {}, rows, left_out=rows[:1])


def notes(
    *captures: CaptureFacts, unreadable: tuple[UnreadableFile, ...] = (), **leaves: int
) -> tuple[str, ...]:
    return build_health(captures or (EVIDENCE,), unreadable, account(**leaves)).notes


def test_a_whole_trace_needs_no_note() -> None:
    assert notes() == ()


@pytest.mark.parametrize(
    ("change", "note_text"),
    [
        ({"host_events": 0, "launched": 0}, "no host events"),
        ({"activities": 0, "launched": None}, "no device activity"),
        ({"launched": 0}, "no launch is recorded"),
        ({"launched": 80}, "20.0 % of the activities have no launch record"),
        ({"streams": 2, "has_sync_records": False}, "several streams"),
        ({"has_shapes": False}, "no input shapes: not said are why tensor cores"),
        ({"has_stacks": False}, "no Python stacks: not said are lines of source"),
        ({"resolution_ns": 1000}, "whole microseconds"),
        ({"truncated": True}, "the file ends in the middle"),
        ({"syncs": 200}, "50 synchronisations a step"),
        ({"reader_notes": ("odd writer",)}, "odd writer"),
        ({"partition_notes": (Count("loose overhead", 3),)}, "loose overhead (3)"),
        ({"rank": 0, "world": 2}, "one rank of 2"),
        ({"dropped": (Count("no name", 2),)}, "2 of 1,000 events dropped: no name (2)"),
        (
            {"repaired": tuple(Count(letter, 1) for letter in "abcd")},
            "4 of 1,000 events repaired: a (1), b (1), c (1) and 1 more",
        ),
    ],
)
def test_what_is_missing_or_unsure_is_said(change: dict[str, object], note_text: str) -> None:
    (note,) = notes(replace(EVIDENCE, **change))  # type: ignore[arg-type]
    assert note_text in note


def test_shares_that_are_unsure_are_said_from_two_percent_on() -> None:
    assert notes(busy__other=79) == notes(idle__device__wait=79) == ()
    (other_note,) = notes(busy__other=80)
    (wait_note,) = notes(idle__device__wait=80)
    assert other_note.startswith("2.0 % of the time is of kernels")
    assert wait_note.startswith("2.0 % of the time the device waited")


def test_bounds_are_called_bounds() -> None:
    slow = replace(account(), groups={"host": 80})
    (host_note,) = build_health([EVIDENCE], [], slow).notes
    assert "upper bound" in host_note
    (data_note,) = notes(idle__data__unstaged=1)
    assert "lower bound" in data_note


def test_captures_without_steps_or_with_all_of_them_counted_say_so() -> None:
    assert any("no steps" in note for note in build_health([EVIDENCE], [], account(None)).notes)
    all_counted = replace(account(), left_out=())
    assert any(
        "all 4 steps are counted" in note
        for note in build_health([EVIDENCE], [], all_counted).notes
    )


def test_several_files_of_a_rank_are_said_to_be() -> None:
    first_rank, second_rank = replace(EVIDENCE, rank=0), replace(EVIDENCE, rank=1)
    assert not any(
        "several files" in note
        for note in build_health([first_rank, second_rank], [], account()).notes
    )
    messages = build_health([first_rank, first_rank, second_rank], [], account()).notes
    assert "several files of rank 0: all are counted, as captures of one job" in messages


def test_health_of_many_ranks_is_joined() -> None:
    first_rank = replace(EVIDENCE, rank=0, world=4, dropped=(Count("x", 1),), launched=50)
    second_rank = replace(
        first_rank, rank=1, truncated=True, clock_error_ns=7, reader_notes=("odd",)
    )
    health = build_health(
        [first_rank, second_rank], [UnreadableFile("rank2.json", "is empty")], account()
    )
    assert (health.events, health.dropped, health.clock_error_ns) == (2000, 2, 7)
    assert health.launches_recorded == 0.5
    assert health.details == (Count("dropped: x", 2),)
    text = "\n".join(health.notes)
    for words in (
        "left out: rank2.json: is empty",
        "2 of 4 ranks are not here",
        "1 of 2 files end in the middle",
        "odd (1 of 2 files)",
    ):
        assert words in text


def test_step_times_are_over_the_counted_rows(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "t.json", training(8, slow=4))
    study = gapless.open(path, cache=False)
    steps = study.steps
    assert steps is not None
    assert (steps.count, steps.left_out, steps.rule) == (6, 2, "ProfilerStep#")
    assert steps.median_ns == 1000 * US
    assert len(steps.slowest) == 3
    assert steps.typical is not None
    assert steps.typical.row.end - steps.typical.row.start == 1000 * US


def test_of_many_ranks_a_slow_step_is_named_once() -> None:
    rows = tuple(
        RowAccount(Row(rank, 0, step, 0, 1000 + 10 * step + rank, left_out=False), {}, {})
        for rank in range(2)
        for step in range(5)
    )
    steps = step_times(Account(1, 10, {}, {}, {}, rows), "rule")
    assert steps is not None
    assert [(slow_row.row.step, slow_row.row.rank) for slow_row in steps.slowest] == [
        (4, 1),
        (3, 1),
        (2, 1),
    ]
    assert steps.count == 5


def test_quantiles_lie_between_the_nearest_values() -> None:
    assert [quantile([10, 20, 40], share) for share in (0, 0.25, 0.5, 1)] == [10, 15, 20, 40]


def test_a_leaf_opens_to_its_longest_pieces(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "t.json", training(8, slow=4))
    leaf = gapless.open(path, cache=False, leaf="idle.host", pieces=3).leaf
    assert leaf is not None
    assert leaf.prefix == "idle.host"
    assert leaf.ns == sum(
        ns
        for name, ns in gapless.open(path, cache=False).account.leaves.items()
        if name.startswith("idle.host.")
    )
    longest, *shorter = leaf.longest
    assert len(shorter) == 2
    assert longest.ns >= shorter[0].ns >= shorter[1].ns
    assert longest.leaf == "idle.host.python"
    assert longest.line == "train.py:10 main"
    assert 0 <= longest.offset_ns < 1000 * US
    assert leaf.median_ns is not None


def test_pieces_of_work_name_the_kernel_its_operator_and_stream(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "t.json", training())
    leaf = gapless.open(path, cache=False, leaf="busy.tc_math", pieces=1).leaf
    assert leaf is not None
    (piece,) = leaf.longest
    assert (piece.culprit, piece.category) == ("sm90_xmma_gemm_bf16bf16_tensorop", "kernel")
    assert (piece.operator, piece.thread, piece.ns) == ("aten::addmm", "stream 7", 200 * US)
    assert piece.line == "train.py:10 main"


def test_a_leaf_that_nothing_is_charged_to_has_no_pieces(tmp_path: Path) -> None:
    path = writing.write(tmp_path / "t.json", training())
    leaf = gapless.open(path, cache=False, leaf="comm").leaf
    assert leaf == Leaf("comm", 0, 0, None, ())


def test_pieces_without_a_culprit_and_on_other_threads_are_told(tmp_path: Path) -> None:
    events = training()
    for number in range(8):
        start = number * 1000.0
        events += [
            host("cuda_runtime", "cudaDeviceSynchronize", start + 340, start + 480, tid=9),
            op("aten::other", start + 500, start + 510, tid=9),
            {**call(1000 + number, start + 505, start + 507), "tid": 9},
            kernel("late", 1000 + number, start + 700, start + 710),
        ]
    path = writing.write(tmp_path / "t.json", events)
    for leaf in ("idle", "busy"):
        detail = gapless.open(path, cache=False, leaf=leaf, pieces=1000).leaf
        assert detail is not None
        threads = {piece.thread for piece in detail.longest}
        assert threads & {"main", "thread 9", "stream 7"}
        assert all(piece.category is None for piece in detail.longest if piece.culprit is None)


def test_idle_time_that_nobody_is_to_blame_for_has_no_culprit(tmp_path: Path) -> None:
    events = [event for event in training() if event["cat"] != "python_function"]
    path = writing.write(tmp_path / "t.json", events)
    leaf = gapless.open(path, cache=False, leaf="idle.host.python", pieces=1).leaf
    assert leaf is not None
    (piece,) = leaf.longest
    assert (piece.culprit, piece.category, piece.thread) == (None, None, None)
    assert (piece.operator, piece.line) == (None, None)


def test_leaves_of_many_ranks_are_joined() -> None:
    leaf = Leaf("idle", 3, 30, 10, ())
    assert merge_leaves([leaf], 5) == leaf
    assert merge_leaves([leaf, leaf], 5) == Leaf("idle", 6, 60, None, ())
    assert merge_leaves([], 5) is None


def test_a_study_less_itself_is_nothing(tmp_path: Path) -> None:
    study = gapless.open(writing.write(tmp_path / "t.json", training()), cache=False)
    comparison = gapless.compare(study, study)
    assert all(change.delta_ns == 0 for change in (*comparison.groups, *comparison.leaves))
    assert {row.status for row in (*comparison.operators, *comparison.kernels)} == {"same"}
    assert all(row.delta_ns == 0 for row in (*comparison.operators, *comparison.kernels))


def test_a_comparison_sums_to_the_difference_of_the_steps(tmp_path: Path) -> None:
    extra = [
        event
        for n in range(8)
        for event in (
            op("new", n * 1000 + 600, n * 1000 + 700),
            call(500 + n, n * 1000 + 610, n * 1000 + 620),
            kernel("added", 500 + n, n * 1000 + 700, n * 1000 + 1100),
        )
    ]
    paths = [
        writing.write(tmp_path / "a.json", training()),
        writing.write(tmp_path / "b.json", training() + extra),
    ]
    a, b = (gapless.open(path, cache=False) for path in paths)
    comparison = gapless.compare(a, b)
    assert comparison.per_step
    assert (comparison.a.rows, comparison.b.rows) == (6, 6)
    for changes in (comparison.groups, comparison.leaves):
        assert sum(change.a_ns for change in changes) == comparison.a.step_ns
        assert sum(change.b_ns for change in changes) == comparison.b.step_ns
    kernels = {row.name: row for row in comparison.kernels}
    assert (kernels["added"].status, kernels["added"].a_ns) == ("added", None)
    assert kernels["added"].b_calls == 1
    assert kernels["sm90_xmma_gemm_bf16bf16_tensorop"].detail == "2×1×1 of 128×1×1"
    (removed_row,) = [row for row in gapless.compare(b, a).kernels if row.name == "added"]
    assert (removed_row.status, removed_row.delta_ns) == ("removed", -kernels["added"].delta_ns)


def test_a_comparison_of_unlike_things_says_so(tmp_path: Path) -> None:
    bare = writing.write(tmp_path / "a.json", [op("aten::x", 0, 10), op("aten::y", 50, 10)])
    full = writing.write(tmp_path / "b.json", writing.training())
    a, b = gapless.open(bare, cache=False), gapless.open(full, cache=False)
    assert gapless.compare(a, b).notes == (
        "A has no device: its time is that of a thread, that of B is a device's",
        "A has no steps: both are compared as whole captures",
    )
    assert [note[:8] for note in gapless.compare(b, a).notes] == ["B has no", "B has no"]
    assert gapless.compare(b, b).notes == ()


def test_captures_without_steps_are_compared_whole(tmp_path: Path) -> None:
    a = gapless.open(writing.write(tmp_path / "a.json", [op("x", 0, 10)]), cache=False)
    b = gapless.open(writing.write(tmp_path / "b.json", [op("x", 0, 30)]), cache=False)
    comparison = gapless.compare(a, b)
    assert not comparison.per_step
    (row,) = comparison.operators
    assert (row.status, row.delta_ns) == ("changed", 20_000)


@pytest.mark.parametrize(
    ("name", "ranks", "expected"),
    [
        ("allreduce", 4, 1.5),
        ("_reduce_scatter_base", 4, 0.75),
        ("all_gather", 8, 0.875),
        ("alltoallv", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send", 2, 1.0),
        ("gather", 4, 0.75),
        ("barrier", 4, None),
        ("allreduce", 0, None),
    ],
)
def test_bus_bandwidth_uses_the_factors_of_nccl_tests(
    name: str, ranks: int, expected: float | None
) -> None:
    assert bandwidth_factor(name, ranks) == expected


def test_the_size_of_a_collective_is_that_of_its_larger_side() -> None:
    assert collective_bytes(Collective(dtype="BFloat16", in_elements=10, out_elements=40)) == 80
    assert collective_bytes(Collective(dtype="unheard of", in_elements=10)) is None
    assert collective_bytes(Collective(dtype="Float")) is None


def test_rows_of_ranks_add_up_and_what_one_lacks_stays_absent() -> None:
    def table(device: int | None, peak: int | None, bus: float | None) -> Tables:
        return replace(
            EMPTY_TABLES,
            operators=(Operator("a", None, 1, 2, 3, device, device),),
            copies=(Copy("HtoD", "pinned", 1, device, 10, None),),
            collectives=(CollectiveRow("allreduce", None, 2, 1, 8, 10, bus, 4, 6),),
            memory=(Memory("cuda:0", peak, None, 1, 2, 3),),
        )

    merged = merge_tables([table(5, 7, 1.0), table(6, 9, 2.0)])
    assert merged.operators == (Operator("a", None, 2, 4, 6, 11, 11),)
    assert merged.copies[0].bytes_per_s == pytest.approx(11 / 20 * 1e9)
    assert (merged.collectives[0].bus_bytes_per_s, merged.collectives[0].calls) == (1.5, 2)
    assert merged.memory == (Memory("cuda:0", 9, None, 2, 4, 6),)
    lacking = merge_tables([table(5, 7, 1.0), table(None, None, None)])
    assert lacking.operators[0].device_self_ns is None
    assert (lacking.copies[0].bytes, lacking.copies[0].bytes_per_s) == (None, None)
    assert lacking.collectives[0].bus_bytes_per_s is None
    assert lacking.memory[0].peak_allocated == 7


@given(
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 10**6)), max_size=30),
)
def test_groups_are_those_of_equal_keys(rows: list[tuple[int, int]]) -> None:
    keys = [np.array(key, np.int64) for key in zip(*rows, strict=True)] or [np.empty(0, np.int64)]
    groups = group_rows(*keys)
    distinct = sorted(set(rows))
    assert [rows[index] for index in groups.first_rows] == distinct
    assert [distinct[number] for number in groups.group_ids] == rows
    assert groups.count().tolist() == [rows.count(row) for row in distinct]


def test_the_heaviest_label_of_a_group_wins() -> None:
    groups = group_rows(np.array([0, 0, 0, 1]))
    label, weight = np.array([5, 6, 6, -1]), np.array([10, 6, 5, 1])
    assert heaviest_labels(groups, label, weight).tolist() == [6, -1]
    assert heaviest_labels(groups, np.full(4, -1), weight).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("train.py", False),
        ("../project/model.py", False),
        ("torch/nn/modules/module.py", True),
        ("/venv/lib/python3.12/site-packages/x/y.py", True),
        ("<frozen os>", True),
        ("typing.py", True),
    ],
)
def test_files_of_libraries_are_told_from_the_users(file: str, library: bool) -> None:
    assert is_library(file) is library
