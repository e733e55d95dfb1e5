"""What ``gapless explain`` and the docs say of each check: the docstring of its function."""

import inspect
from collections.abc import Iterator
from typing import Final

from gapless.doctor.answers import Examine
from gapless.doctor.checks import GROUPS
from gapless.doctor.measured.peaks import LOOKED_UP, list_peaks

_TERA: Final = 1e12


def find_page(name: str) -> str | None:
    """Return the page of a check; ``None`` for a name that is none."""
    for checks in GROUPS.values():
        if name in checks:
            return f"# {name}\n\nA check of gapless doctor.\n\n{_text(checks[name])}\n"
    return None


def index_lines() -> Iterator[str]:
    """Yield a line for each check: its name, and what it looks at."""
    yield "Checks of gapless doctor:"
    for checks in GROUPS.values():
        yield from (f"  {name:<36}{summarize(examine)}" for name, examine in checks.items())


def check_table() -> str:
    """Return all checks as a table in Markdown."""
    rows = ["| | check | what it looks at |", "|---|---|---|"]
    for group, checks in GROUPS.items():
        rows += [
            f"| {group if number == 0 else ''} | `{name}` | {summarize(examine)} |"
            for number, (name, examine) in enumerate(checks.items())
        ]
    return "\n".join(rows)


def summarize(examine: Examine) -> str:
    """Return what a check looks at, in its first sentence."""
    return " ".join(_text(examine).partition("\n\n")[0].split()).rstrip(".").replace("``", "`")


def _text(examine: Examine) -> str:
    return (inspect.getdoc(examine) or "").replace("``", "`")


def peak_table() -> str:
    """Return the peaks of all listed cards as a Markdown table, with their documents."""
    lines = [
        f"As the documents are quoted, looked up on {LOOKED_UP}: dense TFLOP/s, and TB/s.\n",
        "| card | fp16, bf16 | tf32 | fp32 | memory | document |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for card, peaks in list_peaks().items():
        tf32 = "–" if peaks.tf32 is None else f"{peaks.tf32 / _TERA:.4g}"
        figures = f"{peaks.half / _TERA:.4g} | {tf32} | {peaks.fp32 / _TERA:.4g}"
        lines.append(f"| {card} | {figures} | {peaks.memory / _TERA:.4g} | {peaks.source} |")
    return "\n".join(lines)
