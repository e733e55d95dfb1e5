import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.accounting.run_row import RUN_LEAF, RUN_LEAVES, Marks, RunRow, run_row

MS = 1_000_000


def marked(*marks: tuple[str, int, int]) -> Marks:
    rows = np.array([(s, e, RUN_LEAF[leaf]) for leaf, s, e in marks], np.int64).reshape(-1, 3)
    return Marks(rows[:, 0] * MS, rows[:, 1] * MS, rows[:, 2])


def in_ms(row: RunRow) -> dict[str, int]:
    return {leaf: ns // MS for leaf, ns in row.parts().items()}


GOLDEN = marked(
    ("data.read", 200, 250),
    ("data.main", 400, 460),
    ("collector", 440, 450),
    ("evaluation", 600, 700),
    ("data.main", 610, 620),
    ("checkpoint", 890, 920),
)


def test_r1_sums_to_the_life_of_the_process() -> None:
    row = run_row((0, 1000 * MS), (300 * MS, 900 * MS), GOLDEN)
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
    row = run_row((0, 1000 * MS), (300 * MS, 900 * MS), GOLDEN)
    blamed: dict[str, set[int]] = {}
    for leaf, culprit in zip(row.leaf.tolist(), row.culprit.tolist(), strict=True):
        blamed.setdefault(RUN_LEAVES[int(leaf)], set()).add(int(culprit))
    assert blamed["data.main"] == {1, 4}
    assert blamed["collector"] == {2}
    assert blamed["step"] == blamed["set-up"] == blamed["tear-down"] == {-1}


def test_a_process_that_never_stepped_was_setting_up() -> None:
    row = run_row((0, 100 * MS), None, marked(("unknown", 90, 100)))
    assert in_ms(row) == {"set-up": 90, "unknown": 10}


def test_marks_beyond_the_life_of_the_process_are_cut() -> None:
    row = run_row((10 * MS, 20 * MS), (12 * MS, 18 * MS), marked(("logging", 5, 11)))
    assert in_ms(row) == {"logging": 1, "set-up": 1, "step": 6, "tear-down": 2}
    assert (row.start[0], row.end[-1]) == (10 * MS, 20 * MS)


spans = st.tuples(st.sampled_from(RUN_LEAVES[:-3]), st.integers(-5, 30), st.integers(0, 20))


@given(st.lists(spans, max_size=8), st.integers(0, 25), st.integers(0, 25))
def test_each_instant_goes_to_the_first_of_the_order(
    drawn: list[tuple[str, int, int]], a: int, b: int
) -> None:
    marks = marked(*((leaf, start, start + length) for leaf, start, length in drawn))
    first, last = sorted((a, b))
    row = run_row((0, 25), (first, last), Marks(marks.start // MS, marks.end // MS, marks.leaf))
    expected: dict[str, int] = {}
    for tick in range(25):
        below = "set-up" if tick < first else "step" if tick < last else "tear-down"
        opened = [leaf for leaf, s, length in drawn if s <= tick < s + length]
        ranks = {leaf: -1 if leaf.startswith("data.") else RUN_LEAF[leaf] for leaf in opened}
        before = [leaf for leaf in opened if leaf in ("unknown", "observer", "collector")]
        top = min(before or opened, key=lambda leaf: ranks[leaf], default=below)
        name = "data" if top.startswith("data.") else top
        expected[name] = expected.get(name, 0) + 1
    got: dict[str, int] = {}
    for leaf, ns in row.parts().items():
        name = "data" if leaf.startswith("data.") else leaf
        got[name] = got.get(name, 0) + ns
    assert got == expected
