"""Columns as a frame of whichever library the user has, through narwhals."""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, Literal, cast

from gapless.errors import NotFoundError

_LIBRARIES: Final = ("polars", "pandas", "pyarrow")


def build_frame(columns: Mapping[str, list[object]]) -> Any:  # noqa: ANN401
    """Build the frame of the library that is loaded, else of the first that is installed.

    Raises ``NotFoundError`` where narwhals or all of polars, pandas and pyarrow are missing.
    """
    if find_spec("narwhals") is None:
        raise NotFoundError(
            "a frame needs narwhals, which is not installed; do: pip install 'gapless[frame]'"
        )
    import narwhals as nw  # noqa: PLC0415 - slow to import, and an extra

    return nw.from_dict(columns, backend=_frame_library()).to_native()


def _frame_library() -> Literal["polars", "pandas", "pyarrow"]:
    loaded = [name for name in _LIBRARIES if name in sys.modules]
    candidates = [*loaded, *(name for name in _LIBRARIES if find_spec(name) is not None)]
    if not candidates:
        raise NotFoundError(
            "a frame needs polars, pandas or pyarrow, and none is installed; do: pip install polars"
        )
    return cast("Literal['polars', 'pandas', 'pyarrow']", candidates[0])
