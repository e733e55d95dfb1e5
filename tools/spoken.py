"""The generated table of ``docs/rules.md``: which recordings each rule speaks of."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gapless.catalogue.rules import RULES

SPOKEN_PATH: Final = Path(__file__).resolve().parents[1] / "tests" / "zoo" / "spoken.json"
_MAX_NAMED: Final = 3  # recordings that are named
_NO_RECORDING: Final = "–"


def spoken_table(path: Path = SPOKEN_PATH) -> str:
    """Return the table, and the rules that no recording made speak."""
    if not path.exists():
        return "This has not been asked yet."
    recordings: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows = ["| cause | named in | worth a trial in | harmless in | silent in | not checked in |"]
    rows.append("|---|---|---|---|--:|--:|")
    rows += [_row(recordings, rule.code, rule.name) for rule in RULES]
    silent_rules = [
        f"{rule.code} {rule.name}" for rule in RULES if not _is_spoken(recordings, rule.code)
    ]
    unnamed_rules = [
        f"{rule.code} {rule.name}" for rule in RULES if not _is_named(recordings, rule.code)
    ]
    return "\n".join(
        [
            *rows,
            "",
            f"Asked of {len(recordings)} recordings.",
            "",
            _silent_sentence(silent_rules),
            "",
            f"Neither named nor worth a trial in any: {', '.join(unnamed_rules) or 'none'}.",
        ]
    )


def _silent_sentence(silent_rules: Sequence[str]) -> str:
    return (
        f"Seen in none of them: {', '.join(silent_rules) or 'none'}. Each of these speaks of a "
        "small training with its fault (`tests/zoo/small_faults.py`), and not of its healthy twin: "
        "those on a GPU were run on an H100, G507 and G801 on an H200."
    )


def _row(recordings: Mapping[str, Any], code: str, name: str) -> str:
    names_by_outcome = {
        outcome: _recordings_with(recordings, code, outcome)
        for outcome in ("findings", "to_try", "present")
    }
    unchecked = len(_recordings_with(recordings, code, "abstentions"))
    silent = len(recordings) - unchecked - sum(map(len, names_by_outcome.values()))
    cells = [_list_names(names) for names in names_by_outcome.values()]
    return f"| {code} {name} | {' | '.join(cells)} | {silent} | {unchecked} |"


def _recordings_with(recordings: Mapping[str, Any], code: str, outcome: str) -> list[str]:
    return [name for name, codes in recordings.items() if code in codes[outcome]]


def _list_names(names: Sequence[str]) -> str:
    if not names:
        return _NO_RECORDING
    suffix = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_MAX_NAMED]) + suffix


def _is_named(recordings: Mapping[str, Any], code: str) -> bool:
    return any(
        code in codes["findings"] or code in codes["to_try"] for codes in recordings.values()
    )


def _is_spoken(recordings: Mapping[str, Any], code: str) -> bool:
    return _is_named(recordings, code) or any(
        code in codes["present"] for codes in recordings.values()
    )
