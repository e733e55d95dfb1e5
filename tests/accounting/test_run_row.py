import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES, RunRow, ThreadMarks, charge_life

MS = 1_000_000


def make_marks(*marks: tuple[str, int, int]) -> ThreadMarks:
    rows = np.array([(s, e, RUN_LEAF[leaf]) for leaf, s, e in marks], np.int64).reshape(-1, 3)
    return ThreadMarks(rows[:, 0] * MS, rows[:, 1] * MS, rows[:, 2])


def in_ms(row: RunRow) -> dict[str, int]:
    return {leaf: ns // MS for leaf, ns in row.sum_by_leaf().items()}


GOLDEN = make_marks(
    ("data.read", 200, 250),
    ("data.main", 400, 460),
    ("collector", 440, 450),
    ("evaluation", 600, 700),
    ("data.main", 610, 620),
    ("checkpoint", 890, 920),
)


def test_r1_sums_to_the_life_of_the_process() -> None:
    row = charge_life((0, 1000 * MS), (300 * MS, 900 * MS), GOLDEN)
    assert in_ms(row) == {
        "set-up": 250,
        "data.read": 50,
        "step": 430,
        "data.main": 60,
        "collector": 10,
        "evaluation": 90,
        "checkpoint": 30,
        "tear-down": 80,
    }


def test_blames_the_mark_or_nothing() -> None:
    row = charge_life((0, 1000 * MS), (300 * MS, 900 * MS), GOLDEN)
    culprits: dict[str, set[int]] = {}
    for leaf, culprit in zip(row.leaf.tolist(), row.culprit.tolist(), strict=True):
        culprits.setdefault(RUN_LEAVES[int(leaf)], set()).add(int(culprit))
    assert culprits["data.main"] == {1, 4}
    assert culprits["collector"] == {2}
    assert culprits["step"] == culprits["set-up"] == culprits["tear-down"] == {-1}


def test_a_process_that_never_stepped_was_setting_up() -> None:
    row = charge_life((0, 100 * MS), None, make_marks(("unknown", 90, 100)))
    assert in_ms(row) == {"set-up": 90, "unknown": 10}


def test_marks_beyond_the_life_of_the_process_are_cut() -> None:
    row = charge_life((10 * MS, 20 * MS), (12 * MS, 18 * MS), make_marks(("logging", 5, 11)))
    assert in_ms(row) == {"logging": 1, "set-up": 1, "step": 6, "tear-down": 2}
    assert (row.start[0], row.end[-1]) == (10 * MS, 20 * MS)


spans = st.tuples(st.sampled_from(RUN_LEAVES[:-3]), st.integers(-5, 30), st.integers(0, 20))


@given(st.lists(spans, max_size=8), st.integers(0, 25), st.integers(0, 25))
def test_each_instant_goes_to_the_first_of_the_order(
    drawn_marks: list[tuple[str, int, int]], a: int, b: int
) -> None:
    marks = make_marks(*((leaf, start, start + length) for leaf, start, length in drawn_marks))
    first_tick, last_tick = sorted((a, b))
    row = charge_life(
        (0, 25),
        (first_tick, last_tick),
        ThreadMarks(marks.start // MS, marks.end // MS, marks.leaf),
    )
    expected: dict[str, int] = {}
    for tick in range(25):
        below = "set-up" if tick < first_tick else "step" if tick < last_tick else "tear-down"
        open_leaves = [leaf for leaf, s, length in drawn_marks if s <= tick < s + length]
        ranks = {leaf: -1 if leaf.startswith("data.") else RUN_LEAF[leaf] for leaf in open_leaves}
        urgent = [leaf for leaf in open_leaves if leaf in ("unknown", "observer", "collector")]
        top = min(urgent or open_leaves, key=lambda leaf: ranks[leaf], default=below)
        name = "data" if top.startswith("data.") else top
        expected[name] = expected.get(name, 0) + 1
    actual: dict[str, int] = {}
    for leaf, ns in row.sum_by_leaf().items():
        name = "data" if leaf.startswith("data.") else leaf
        actual[name] = actual.get(name, 0) + ns
    assert actual == expected
