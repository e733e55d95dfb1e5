"""One event that did not decode → the same event as sound JSON, what was done to it; or why not.

Only what has one meaning is mended. What would have to be guessed is dropped and counted.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import msgspec

from gapless.formats import rewrite
from gapless.formats.entries import ARGS, PHASES, WHOLE_ARGS

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


@dataclass(frozen=True)
class Outcome:
    """A mended event; or why it is dropped; or neither: the text is no whole event."""

    text: bytes | None = None
    repairs: tuple[str, ...] = ()
    dropped: str | None = None


def event(piece: bytes) -> Outcome:
    """Mend one event."""
    repairs: list[str] = []
    text = _surrogates(_letters(piece.strip(_BLANK), repairs), repairs)
    found = _parsed(text, repairs)
    if found is None:
        return Outcome()
    if not isinstance(found, dict):
        return Outcome(dropped="no object")
    return _event(cast("dict[str, Any]", found), repairs)


def _letters(piece: bytes, repairs: list[str]) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        repairs.append("bad UTF-8")
        return piece.decode(errors="replace")


def _surrogates(text: str, repairs: list[str]) -> str:
    def sound(found: re.Match[str]) -> str:
        if found["lone"] is None:
            return found[0]
        repairs.append("half a surrogate pair")
        return "\\ufffd"

    return _ESCAPE.sub(sound, text) if "\\u" in text else text


def _parsed(text: str, repairs: list[str]) -> object:
    """Parse the text, as it is or rewritten; ``None`` if neither will do."""
    for strict, reason in ((True, None), (False, "raw control character")):
        try:
            found = _loaded(text, repairs, strict=strict)
        except (ValueError, RecursionError):
            continue
        if reason is not None:
            repairs.append(reason)
        return found
    again = rewrite.event(text)
    if again is None:
        return None
    try:
        found = _loaded(again.text, repairs, strict=False)
    except (ValueError, RecursionError):
        return None
    repairs += again.repairs
    return found


def _loaded(text: str, repairs: list[str], *, strict: bool) -> object:
    constants: list[str] = []
    found: object = json.loads(
        text, strict=strict, parse_float=_decimal, parse_constant=constants.append
    )
    if constants:
        repairs.append(rewrite.NO_NUMBER)
    return found


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of more digits than a decimal holds
        return None


def _event(found: dict[str, Any], repairs: list[str]) -> Outcome:
    phase = found.get("ph")
    if not isinstance(phase, str) or phase not in PHASES:
        return Outcome(dropped="no known phase")
    before = len(repairs)
    sound = {"ph": phase} | _members(found, repairs)
    if phase == "M":
        sound["args"] = found.get("args")
    if len(repairs) > before:
        repairs = [*repairs[:before], _WRONG_TYPE]
    try:
        return Outcome(text=_WRITER.encode(sound), repairs=tuple(dict.fromkeys(repairs)))
    except (OverflowError, RecursionError):
        return Outcome(dropped="number of more than 64 bits")


def _members(found: dict[str, Any], repairs: list[str]) -> dict[str, Any]:
    """Give what columns are made from, each of the type that it should have."""
    sound: dict[str, Any] = {}
    for key in ("ts", "dur"):
        value = found.get(key)
        if isinstance(value, (int, Decimal, str)) and not isinstance(value, bool):
            sound[key] = value
        elif value is not None:
            repairs.append(key)
    for key in ("name", "cat"):
        sound[key] = _text(found.get(key), repairs)
    for key in ("pid", "tid"):
        sound[key] = _place(found.get(key), repairs)
    args = found.get("args")
    if isinstance(args, dict):
        sound["args"] = _arguments(cast("dict[str, Any]", args), repairs)
    elif args is not None:
        repairs.append("args")
    return sound


def _text(value: object, repairs: list[str]) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    repairs.append("text")
    return json.dumps(value, default=str)


def _place(value: object, repairs: list[str]) -> int | str:
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
    sound: dict[str, Any] = {}
    for key in ARGS & args.keys():
        value = args[key]
        if key not in WHOLE_ARGS:
            sound[key] = value
        elif (number := _whole(value)) is not None:
            sound[key] = number
        elif value is not None:
            repairs.append(key)
    return sound


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    try:
        exact = Decimal(value)
    except InvalidOperation:
        return None
    if not exact.is_finite() or not _LOW <= exact <= _HIGH or exact != int(exact):
        return None
    return int(exact)
