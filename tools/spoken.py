"""The generated table of ``docs/rules.md``: which recordings each rule speaks of."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gapless.catalogue.rules import RULES

KEPT: Final = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "spoken.json"
_FEW: Final = 3  # recordings that are named
_NONE: Final = "–"


def spoken(kept: Path = KEPT) -> str:
    """Give the table, and the rules that no recording made speak."""
    if not kept.exists():
        return "This has not been asked yet."
    found: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    rows = ["| cause | named in | worth a trial in | harmless in | silent in | not checked in |"]
    rows.append("|---|---|---|---|--:|--:|")
    rows += [_row(found, one.code, one.name) for one in RULES]
    mute = [f"{one.code} {one.name}" for one in RULES if not _heard(found, one.code)]
    unnamed = [f"{one.code} {one.name}" for one in RULES if not _loud(found, one.code)]
    return "\n".join(
        [
            *rows,
            "",
            f"Asked of {len(found)} recordings.",
            "",
            f"Seen in none of them: {', '.join(mute) or 'none'}.",
            "",
            f"Neither named nor worth a trial in any: {', '.join(unnamed) or 'none'}.",
        ]
    )


def _row(found: Mapping[str, Any], code: str, name: str) -> str:
    said = {how: _where(found, code, how) for how in ("findings", "to_try", "present")}
    unchecked = len(_where(found, code, "abstentions"))
    silent = len(found) - unchecked - sum(map(len, said.values()))
    cells = [_listed(where) for where in said.values()]
    return f"| {code} {name} | {' | '.join(cells)} | {silent} | {unchecked} |"


def _where(found: Mapping[str, Any], code: str, how: str) -> list[str]:
    return [name for name, told in found.items() if code in told[how]]


def _listed(names: Sequence[str]) -> str:
    if not names:
        return _NONE
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(f"`{name}`" for name in names[:_FEW]) + more


def _loud(found: Mapping[str, Any], code: str) -> bool:
    return any(code in told["findings"] or code in told["to_try"] for told in found.values())


def _heard(found: Mapping[str, Any], code: str) -> bool:
    return _loud(found, code) or any(code in told["present"] for told in found.values())
