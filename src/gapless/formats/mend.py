"""One event that did not decode → the same event as sound JSON, with what was done to it; or why not.

Only what has one meaning is mended. What had to be guessed is dropped and counted.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

import msgspec

from gapless.formats.entries import PHASES

UNREADABLE: Final = "no JSON"
_BLANK: Final = b" \t\r\n,"
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?P<lone>[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_WRITER: Final = msgspec.json.Encoder(decimal_format="number")
_LOW, _HIGH = -(2**63), 2**63 - 1
_WHOLE_ARGS: Final = (
    "correlation",
    "device",
    "stream",
    "graph node id",
    "bytes",
    "wait_on_cuda_event_record_corr_id",
    "wait_on_stream",
    "Bytes",
    "Total Allocated",
    "Total Reserved",
    "Device Type",
    "Device Id",
)


@dataclass(frozen=True)
class Outcome:
    """A mended event, or why it is dropped, or neither: the text is no whole event."""

    text: bytes | None = None
    repairs: tuple[str, ...] = ()
    dropped: str | None = None


def event(piece: bytes) -> Outcome:
    """Mend one event."""
    repairs: list[str] = []
    text = _decoded(piece.strip(_BLANK), repairs)
    found = _parsed(text)
    if found is None:
        return Outcome()
    if not isinstance(found, dict):
        return Outcome(dropped="no object")
    return _coerced(cast("dict[str, Any]", found), repairs)


def _decoded(piece: bytes, repairs: list[str]) -> str:
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        text = piece.decode(errors="replace")
        repairs.append("bad UTF-8")
    return text


def _parsed(text: str) -> Any | None:
    try:
        return json.loads(text, strict=False, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _coerced(found: dict[str, Any], repairs: list[str]) -> Outcome:
    if found.get("ph") not in PHASES:
        return Outcome(dropped="no known phase")
    return Outcome(text=_WRITER.encode(found), repairs=tuple(repairs))
