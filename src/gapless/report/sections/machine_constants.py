"""The machine's constants as lines of text, part by part, with what is absent at the end."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gapless.model.machine import SCHEMA, Constant, Constants, Platform
from gapless.model.version import version
from gapless.report.text.numbers import rate, size, span
from gapless.report.text.text import clean

_CELLS: Final = 28  # cells of a name
_FIGURE: Final = 14
_THREADS: Final = "cpu."  # ``at`` counts threads there, bytes elsewhere
_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def constant_lines(constants: Constants) -> tuple[str, ...]:
    """Return the text: place, each constant with its spread and rounds, what was not observed."""
    return tuple(
        clean(line)
        for line in (
            *_head(constants),
            *(_line(constant) for constant in constants.values if constant.value is not None),
            *_unobserved_lines(constants.values),
            *(f"note: {note}" for note in constants.notes),
        )
    )


def constants_json(constants: Constants) -> str:
    """Return the JSON object: the constants under their name, with how each was measured."""
    constants_object = {
        "schema": SCHEMA,
        "gapless": version(),
        "constants": msgspec.to_builtins(constants),
    }
    return json.dumps(constants_object, indent=1, ensure_ascii=False) + "\n"


def _head(constants: Constants) -> Iterator[str]:
    if constants.place is not None:
        yield from _platform_lines(constants.place)
    yield f"measured in {span(constants.took_s * 1e9)}"
    if constants.why is not None:
        yield f"incomplete: {constants.why}"


def _platform_lines(platform: Platform) -> Iterator[str]:
    torch = "no torch" if platform.torch is None else f"torch {platform.torch}"
    yield (
        f"{platform.processor}, {platform.processors} processors, Python {platform.python}, {torch}"
    )
    gpu = platform.gpu
    if gpu is not None:
        gpu_parts = (gpu.name, gpu.uuid, gpu.driver and f"driver {gpu.driver}", gpu.why)
        yield ", ".join(text for text in gpu_parts if text)
    if platform.storage is not None:
        yield f"data on {platform.storage}"


def _line(constant: Constant) -> str:
    figures = [
        _figure(value, constant.unit)
        for value in (constant.value, constant.low, constant.high)
        if value
    ]
    value, *spread = figures
    range_words = " – ".join(spread)
    note = f", {constant.note}" if constant.note else ""
    cells = f"{_name(constant):<{_CELLS}} {value:>{_FIGURE}}  {range_words:<27}"
    return f"{cells} × {constant.times}{note}".rstrip()


def _name(constant: Constant) -> str:
    if constant.at is None:
        return constant.name
    if constant.name.startswith(_THREADS):
        return f"{constant.name} {constant.at} thread{'s' if constant.at > 1 else ''}"
    return f"{constant.name} {size(constant.at)}"


def _figure(value: float, unit: str) -> str:
    if unit == "ns":
        return span(value) if value > 0 else f"{value:.0f} ns"  # a difference may be noise
    if unit == "B/s":
        return rate(value)
    factor, prefix = next(((bound, name) for bound, name in _PREFIXES if value >= bound), (1.0, ""))
    digits = 1 if value / factor < 100 else 0  # noqa: PLR2004 - three digits
    if unit == "1/s":
        return f"{value:,.0f}/s"
    return f"{value / factor:.{digits}f} {prefix}{unit}"


def _unobserved_lines(values: Sequence[Constant]) -> Iterator[str]:
    """Describe what was not observed: a line for each reason."""
    unobserved = sorted(
        (constant.why or "", _name(constant)) for constant in values if constant.value is None
    )
    for why, group in itertools.groupby(unobserved, key=lambda pair: pair[0]):
        names = ", ".join(name for _, name in group)
        yield f"not observed ({why}): {names}"
