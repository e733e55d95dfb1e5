"""Windows stand for the kinds of steps that they hold, as often as the run has them."""

import numpy as np
import pytest

from gapless.model.account import Account, RowAccount
from gapless.model.leaf import GROUPS, group_of
from gapless.model.ledger import Row
from gapless.model.study import RunInfo, Study, StudyHealth
from gapless.model.tables import EMPTY_TABLES
from gapless.recorded.steps.account import STEP, StepTotals, step_account
from gapless.recorded.steps.kinds import match_kinds
from tests.study.recording import MS

PPO = np.array(([2 * MS] * 15 + [70 * MS]) * 10)
SHORT, LONG = {"busy.optimizer": 2 * MS, "busy.math": MS}, {"idle.host.python": 80 * MS}


def windows(*rows: dict[str, int]) -> Study:
    """Return a study of windows without a device whose rows hold these leaves."""
    account_rows, start = list[RowAccount](), 0
    for index, leaves in enumerate(rows):
        length = sum(leaves.values())
        row = Row(None, None, index, start, start + length, left_out=False)
        account_rows.append(RowAccount(row, leaves, {}))
        start += length
    leaves_by_group: dict[str, dict[str, int]] = {}
    for leaves in rows:
        for leaf, ns in leaves.items():
            group = leaves_by_group.setdefault(group_of(leaf), {})
            group[leaf] = group.get(leaf, 0) + ns
    return Study(
        run=RunInfo((), (), None, None, ()),
        health=StudyHealth("kineto", 0, 0, 0, False, 1, None, 0, (), ()),  # noqa: FBT003
        steps=None,
        account=Account(
            start,
            len(rows),
            {},
            dict.fromkeys(GROUPS, 0),
            leaves_by_group,
            rows=tuple(account_rows),
        ),
        tables=EMPTY_TABLES,
    )


def leaves(*rows: dict[str, int], lengths_ns: np.ndarray = PPO) -> dict[str, float]:
    """Return the shares of a run's account by leaf."""
    totals = {STEP: int(lengths_ns.sum())}
    study = step_account(
        StepTotals(len(lengths_ns), totals[STEP], totals, totals, lengths_ns), windows(*rows)
    )
    assert sum(study.account.leaves.values()) == totals[STEP]
    return {leaf: ns / totals[STEP] for leaf, ns in study.account.leaves.items()}


def test_what_no_window_saw_is_not_made_up_of_what_they_did() -> None:
    shares = leaves(SHORT, SHORT, SHORT)
    assert shares[STEP] == pytest.approx(0.7)  # the rollouts: 70 of 100 ms
    assert shares["busy.optimizer"] == pytest.approx(0.2)


def test_each_kind_weighs_what_the_run_has_of_it() -> None:
    shares = leaves(SHORT, SHORT, LONG, SHORT)
    assert STEP not in shares
    assert shares["idle.host.python"] == pytest.approx(0.7, abs=1e-5)
    assert leaves(LONG, LONG, LONG, SHORT) == pytest.approx(shares, abs=1e-4)


def test_rollouts_alone_say_nothing_of_updates() -> None:
    assert leaves(LONG)[STEP] == pytest.approx(0.3)


def test_steps_that_vary_or_are_held_up_now_and_then_are_of_one_kind() -> None:
    uneven = np.array([MS * tenths // 10 for tenths in range(4, 17)])
    slow = np.append(np.full(100, 3 * MS), 9 * MS)
    for lengths_ns in (uneven, slow, np.full(50, 10 * MS)):
        kind_match = (
            match_kinds(lengths_ns, np.array([lengths_ns.max(), lengths_ns.min()]))
            if lengths_ns is uneven
            else None
        )
        assert kind_match is None or kind_match.unlike is None
        assert (
            match_kinds(lengths_ns, np.full(4, round(1.3 * float(np.median(lengths_ns))))).unlike
            is None
        )
        assert (
            match_kinds(lengths_ns, np.full(4, round(1.3 * float(np.median(lengths_ns))))).weights
            is None
        )


def test_windows_that_a_profiler_slowed_twice_stand_for_the_steps() -> None:
    plain = np.full(80, 10 * MS)
    assert match_kinds(plain, np.array([21 * MS, 24 * MS])).unlike is None
    assert match_kinds(plain, np.array([8 * MS])).unlike is None  # the host drifted


def test_steps_of_all_lengths_are_one_kind_that_something_held_up() -> None:
    held_up = np.geomspace(3 * MS, 30 * MS, 40).astype(np.int64)  # none far longer than the next
    assert match_kinds(held_up, np.array([3 * MS] * 4)).unlike is None


def test_a_kind_begins_behind_a_gap() -> None:
    lengths = np.concatenate((np.geomspace(3 * MS, 9 * MS, 40), [60 * MS] * 4)).astype(np.int64)
    kind_match = match_kinds(lengths, np.array([3 * MS] * 4))
    assert kind_match.unlike is not None
    assert kind_match.unlike.mean_ns == 60 * MS


def test_beside_others_steps_of_all_lengths_are_of_one_kind() -> None:
    rows = np.array([2400, 3200, 2000]) * MS
    torn = np.array([250, 3300, 1100, 410, 570, 3060, 150, 126, 3061, 561, 141, 238, 197]) * MS
    assert match_kinds(torn, rows).unlike is not None
    assert match_kinds(torn, rows, undisturbed=False).unlike is None
    assert match_kinds(PPO, np.array([2, 2, 2]) * MS, undisturbed=False).unlike is not None
