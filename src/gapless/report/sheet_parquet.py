"""All tables as Parquet files, a column for each field: absent as null, nanoseconds in sum."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any, Final

from gapless.errors import UsageError
from gapless.model.study import Study
from gapless.report.sheet_csv import NAMES, table_rows

_ADVICE: Final = "Parquet needs pyarrow: pip install 'gapless[parquet]'"


def check_parquet() -> None:
    """Raise ``UsageError`` without the library, with the command that installs it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(_ADVICE)


def write_parquet(study: Study, folder: Path) -> list[Path]:
    """Write each table that has rows as ``NAME.parquet``; return the files.

    Raises ``UsageError`` without pyarrow, or where nothing can be written.
    """
    check_parquet()
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    paths: list[Path] = []
    try:
        folder.mkdir(exist_ok=True)
        for name in NAMES:
            heads, *rows = table_rows(study, name)
            if rows:
                columns = {
                    str(head): list(cells)
                    for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
                }
                paths.append(folder / f"{name}.parquet")
                parquet.write_table(arrow.table(columns), paths[-1])
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from None
    return paths
