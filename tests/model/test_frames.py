"""An account as a frame; the nouns' own small sums."""

import importlib.util
import sys
from typing import Any, cast

import pandas as pd
import pytest

from gapless.errors import NotFoundError
from gapless.model import frame
from gapless.model.account import Account, RowAccount
from gapless.model.comparison import ChargeDelta, OperationDelta
from gapless.model.ledger import Row


def account(steps: int | None = 1) -> Account:
    kept_row = RowAccount(
        Row(0, 0, 3, 0, 1000, left_out=False),
        {"busy.math": 700, "idle.data.main": 300},
        {"compute": 700, "data": 300},
    )
    left_out_row = RowAccount(
        Row(0, 0, 2, 0, 50, left_out=True), {"busy.math": 50}, {"compute": 50}
    )
    leaves, groups = {"busy.math": 700, "idle.data.main": 300}, {"compute": 700, "data": 300}
    return Account(1000, steps, leaves, groups, {}, (kept_row,), (left_out_row,))


def test_a_frame_sums_to_the_account() -> None:
    frame_rows = account().to_frame()
    assert isinstance(frame_rows, pd.DataFrame)
    rows = cast("list[dict[str, Any]]", frame_rows.to_dict("records"))
    ns_by_leaf = {row["leaf"]: row["ns"] for row in rows if not row["left_out"]}
    assert ns_by_leaf == {"busy.math": 700, "idle.data.main": 300}
    assert sum(row["ns"] for row in rows) == 1050
    assert list(frame_rows.columns) == [
        "rank",
        "device",
        "step",
        "start_ns",
        "end_ns",
        "left_out",
        "leaf",
        "ns",
    ]


def test_a_frame_by_group_has_groups() -> None:
    grouped_frame = account().to_frame(by="group")
    assert sorted(grouped_frame["group"].unique()) == ["compute", "data"]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    absent_names = {"polars", "pandas", "pyarrow", "narwhals"}

    def find(name: str) -> object:
        return None if name in absent_names else importlib.util.find_spec(name)

    monkeypatch.setattr(frame, "find_spec", find)
    for name in absent_names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return absent_names


def test_a_frame_without_a_library_says_what_to_install(nothing_installed: set[str]) -> None:
    with pytest.raises(NotFoundError, match="narwhals"):
        account().to_frame()
    nothing_installed.remove("narwhals")
    with pytest.raises(NotFoundError, match="polars, pandas or pyarrow"):
        account().to_frame()


def test_the_devices_work_is_busy_time_alone() -> None:
    assert account().busy_ns() == 700


def test_changes_tell_their_difference_and_status() -> None:
    assert ChargeDelta("x", 5, 3).delta_ns == -2
    assert OperationDelta("k", None, None, 1.0, None, 2.0).status == "added"
    assert OperationDelta("k", None, 1.0, None, 2.0, None).delta_ns == -2.0
    assert OperationDelta("k", None, 1.0, 1.0, 2.0, 2.0).status == "same"
