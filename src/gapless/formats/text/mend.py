"""One event that did not decode → the same event as sound JSON, what was done to it; or why not.

Only what has one meaning is mended. What would have to be guessed is dropped and counted.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from gapless.formats.entries import ARGS, PHASES, WHOLE_ARGS
from gapless.formats.text import rewrite

UNREADABLE: Final = "no JSON"
_WRONG_TYPE: Final = "value of a wrong type"
_BLANK: Final = b" \t\r\n,"
# A pair of surrogates is one letter; half a pair is none, and printing it would fail.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u(?P<lone>[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_WRITER: Final = msgspec.json.Encoder(decimal_format="number")
_LOW, _HIGH = -(2**63), 2**63 - 1


class MendResult(Struct, frozen=True):
    """A mended event; or why it is dropped; or neither: the text is no whole event."""

    text: bytes | None = None
    repairs: tuple[str, ...] = ()
    dropped: str | None = None


def mend_event(piece: bytes) -> MendResult:
    """Mend one event."""
    repairs: list[str] = []
    text = _surrogates(_decode_utf8(piece.strip(_BLANK), repairs), repairs)
    parsed = _parse_event(text, repairs)
    if parsed is None:
        return MendResult()
    if not isinstance(parsed, dict):
        return MendResult(dropped="no object")
    return _mend_members(cast("dict[str, Any]", parsed), repairs)


def _decode_utf8(piece: bytes, repairs: list[str]) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        repairs.append("bad UTF-8")
        return piece.decode(errors="replace")


def _surrogates(text: str, repairs: list[str]) -> str:
    def replace_half(match: re.Match[str]) -> str:
        if match["lone"] is None:
            return match[0]
        repairs.append("half a surrogate pair")
        return "\\ufffd"

    return _ESCAPE.sub(replace_half, text) if "\\u" in text else text


def _parse_event(text: str, repairs: list[str]) -> object:
    """Parse the text, as it is or rewritten; ``None`` if neither will do."""
    for strict, reason in ((True, None), (False, "raw control character")):
        try:
            parsed = _load_json(text, repairs, strict=strict)
        except (ValueError, RecursionError):
            continue
        if reason is not None:
            repairs.append(reason)
        return parsed
    rewritten = rewrite.rewrite_event(text)
    if rewritten is None:
        return None
    try:
        parsed = _load_json(rewritten.text, repairs, strict=False)
    except (ValueError, RecursionError):
        return None
    repairs += rewritten.repairs
    return parsed


def _load_json(text: str, repairs: list[str], *, strict: bool) -> object:
    constants: list[str] = []
    parsed: object = json.loads(
        text, strict=strict, parse_float=_decimal, parse_constant=constants.append
    )
    if constants:
        repairs.append(rewrite.NO_NUMBER)
    return parsed


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of more digits than a decimal holds
        return None


def _mend_members(parsed: dict[str, Any], repairs: list[str]) -> MendResult:
    phase = parsed.get("ph")
    if not isinstance(phase, str) or phase not in PHASES:
        return MendResult(dropped="no known phase")
    n_before = len(repairs)
    members = {"ph": phase} | _typed_members(parsed, repairs)
    if phase == "M":
        members["args"] = parsed.get("args")
    if len(repairs) > n_before:
        repairs = [*repairs[:n_before], _WRONG_TYPE]
    try:
        return MendResult(text=_WRITER.encode(members), repairs=tuple(dict.fromkeys(repairs)))
    except (OverflowError, RecursionError):
        return MendResult(dropped="number of more than 64 bits")


def _typed_members(parsed: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    """Return what columns are made from, each of the type that it should have."""
    members: dict[str, Any] = {}
    for key in ("ts", "dur"):
        value = parsed.get(key)
        if isinstance(value, (int, Decimal, str)) and not isinstance(value, bool):
            members[key] = value
        elif value is not None:
            repairs.append(key)
    for key in ("name", "cat"):
        members[key] = _text(parsed.get(key), repairs)
    for key in ("pid", "tid"):
        members[key] = _typed_id(parsed.get(key), repairs)
    args = parsed.get("args")
    if isinstance(args, dict):
        members["args"] = _arguments(cast("dict[str, Any]", args), repairs)
    elif args is not None:
        repairs.append("args")
    return members


def _text(value: object, repairs: list[str]) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    repairs.append("text")
    return json.dumps(value, default=str)


def _typed_id(value: object, repairs: list[str]) -> int | str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and _LOW <= value <= _HIGH:
        return value
    if value is None:
        return ""
    repairs.append("place")
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) <= _HIGH:
        return int(value)
    return json.dumps(value, default=str)


def _arguments(args: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for key in ARGS & args.keys():
        value = args[key]
        if key not in WHOLE_ARGS:
            arguments[key] = value
        elif (number := _exact_integer(value)) is not None:
            arguments[key] = number
        elif value is not None:
            repairs.append(key)
    return arguments


def _exact_integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    try:
        exact = Decimal(value)
    except InvalidOperation:
        return None
    if not exact.is_finite() or not _LOW <= exact <= _HIGH or exact != int(exact):
        return None
    return int(exact)
