"""The list of public traces: complete, distinct, and each with its hash."""

from collections.abc import Mapping

from benchmarks.public_traces import find_imbalance, read_entries
from gapless.model.account import Account, RowAccount
from gapless.model.ledger import Row


def test_lists_at_least_thirty_distinct_files() -> None:
    files = [entry for entry in read_entries() if entry.sha256]
    assert len({entry.sha256 for entry in files}) == len(files) >= 30
    assert all(entry.bytes for entry in files)
    assert len({entry.relative_path for entry in files}) == len(files)


def test_places_a_file_by_repository_and_commit() -> None:
    entry = next(entry for entry in read_entries() if entry.address.endswith("/train.json"))
    commit = entry.address.split("/")[6]
    assert entry.relative_path == f"deepseek-ai/profile-data/{commit}/train.json"
    assert f"/raw/{commit}/" in entry.raw


def account(leaves: Mapping[str, int], wall: int) -> Account:
    step_row = Row(rank=None, device=0, step=None, start=0, end=wall, left_out=False)
    row = RowAccount(step_row, {"busy.math": wall}, {"compute": wall})
    groups = {"compute": wall}
    return Account(wall, None, leaves, groups, {"compute": leaves}, (row,))


def test_tells_an_account_that_sums_from_one_that_does_not() -> None:
    assert find_imbalance(account({"busy.math": 10}, 10)) is None
    assert find_imbalance(account({"busy.math": 9}, 10)) == "leaves sum to 9 of 10 ns"
    assert find_imbalance(account({"busy.math": 11, "busy.other": -1}, 10)) is not None
