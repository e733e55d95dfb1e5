"""Tables as Parquet files: the values of the CSV, with their types."""

import csv
import importlib
import importlib.util
import io
from pathlib import Path
from typing import Any, Final

import pytest

from gapless.cli import main
from gapless.report import sheet_parquet
from gapless.report.sheet_csv import table_csv
from gapless.study import Options, open_study

TRACE: Final = Path(__file__).parents[1] / "data" / "loader_workers.json.gz"


def test_each_table_with_rows_is_a_file_that_holds_what_the_csv_holds(tmp_path: Path) -> None:
    parquet: Any = importlib.import_module("pyarrow.parquet")
    study = open_study([TRACE], Options(cache=False, diagnose=False))
    paths = sheet_parquet.write_parquet(study, tmp_path / "tables")
    assert {"account.parquet", "operators.parquet"} <= {path.name for path in paths}
    for path in paths:
        rows = parquet.read_table(path).to_pylist()
        expected = list(csv.DictReader(io.StringIO(table_csv(study, path.stem))))
        texts = [
            {name: "" if value is None else str(value) for name, value in row.items()}
            for row in rows
        ]
        assert texts == expected
    account = parquet.read_table(tmp_path / "tables" / "account.parquet").to_pylist()
    assert sum(row["wall_ns"] for row in account) == study.account.wall_ns


def test_without_the_library_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find_nothing(_: str) -> None:
        """Find no module."""

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    assert main(["open", str(TRACE), "--parquet", str(tmp_path / "tables")]) == 2
    assert "pip install 'gapless[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()
