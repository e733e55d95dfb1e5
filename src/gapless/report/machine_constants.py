"""The machine's constants as lines of text: a part after the other, what is absent at the end."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gapless.model.machine import SCHEMA, Constant, Constants, Place
from gapless.model.version import version
from gapless.report.numbers import rate, size, span
from gapless.report.text import clean

_WIDE: Final = 28  # cells of a name
_FIGURE: Final = 14
_THREADS: Final = "cpu."  # ``at`` counts threads there, bytes elsewhere
_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def lines(constants: Constants) -> tuple[str, ...]:
    """Give the text: where, each constant with its spread and rounds, and what was not observed."""
    return tuple(
        clean(line)
        for line in (
            *_head(constants),
            *(_line(one) for one in constants.values if one.value is not None),
            *_absent(constants.values),
            *(f"note: {note}" for note in constants.notes),
        )
    )


def document(constants: Constants) -> str:
    """Give the JSON object: the constants under their name, with how each was measured."""
    found = {"schema": SCHEMA, "gapless": version(), "constants": msgspec.to_builtins(constants)}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _head(constants: Constants) -> Iterator[str]:
    if constants.place is not None:
        yield from _where(constants.place)
    yield f"measured in {span(constants.took_s * 1e9)}"
    if constants.why is not None:
        yield f"not to its end: {constants.why}"


def _where(place: Place) -> Iterator[str]:
    torch = "no torch" if place.torch is None else f"torch {place.torch}"
    yield f"{place.processor}, {place.processors} processors, Python {place.python}, {torch}"
    gpu = place.gpu
    if gpu is not None:
        named = (gpu.name, gpu.uuid, gpu.driver and f"driver {gpu.driver}", gpu.why)
        yield ", ".join(part for part in named if part)
    if place.storage is not None:
        yield f"data on {place.storage}"


def _line(one: Constant) -> str:
    known = [_figure(value, one.unit) for value in (one.value, one.low, one.high) if value]
    value, *spread = known
    around = " – ".join(spread)
    note = f", {one.note}" if one.note else ""
    return f"{_name(one):<{_WIDE}} {value:>{_FIGURE}}  {around:<27} × {one.times}{note}".rstrip()


def _name(one: Constant) -> str:
    if one.at is None:
        return one.name
    if one.name.startswith(_THREADS):
        return f"{one.name} {one.at} thread{'s' if one.at > 1 else ''}"
    return f"{one.name} {size(one.at)}"


def _figure(value: float, unit: str) -> str:
    if unit == "ns":
        return span(value) if value > 0 else f"{value:.0f} ns"  # a difference may be noise
    if unit == "B/s":
        return rate(value)
    factor, prefix = next(((f, p) for f, p in _PREFIXES if value >= f), (1.0, ""))
    digits = 1 if value / factor < 100 else 0  # noqa: PLR2004 - three digits
    if unit == "1/s":
        return f"{value:,.0f}/s"
    return f"{value / factor:.{digits}f} {prefix}{unit}"


def _absent(values: Sequence[Constant]) -> Iterator[str]:
    """Say what was not observed: a line for each reason."""
    missing = sorted((one.why or "", _name(one)) for one in values if one.value is None)
    for why, group in itertools.groupby(missing, key=lambda pair: pair[0]):
        names = ", ".join(name for _, name in group)
        yield f"not observed ({why}): {names}"
