"""What shows the cost of a cause: changes by which a script gets rid of it, the surest first."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.planted.altering import BATCH_FACTOR, double_batches, propose_edits, record_facts
from benchmarks.planted.judging import is_of_line, proof_edits
from benchmarks.planted.running import Alteration, Lane, RunError
from benchmarks.planted.scripts import Script
from benchmarks.planted.statements import remove_statement, repeat_statement

# Python that is named at a line: what the line takes, operators and all, can only disprove it.
_PYTHON_AT_LINES: Final = frozenset({"G202"})
_CALLS_TOO_MUCH: Final = frozenset({"G201", "G202"})  # shown by larger batches
REMOVALS: Final = frozenset({"needless-gradients"})  # in ``counting/removing.py``


@dataclass(frozen=True)
class Change:
    """How a script gets rid of a cause, and what that shows."""

    name: str
    edit: Callable[[Path], bool] | None = None  # of its copy; tells whether it could
    alteration: Alteration | None = None
    # Gives what a step took without the cause, by what it took changed, and as it is.
    without_cause: Callable[[float, float], float] = lambda changed_s, _: changed_s
    tells: Literal["either", "true", "false"] = "either"
    is_last: bool = False  # nothing that comes after it tells more


@dataclass(frozen=True)
class Subject:
    """A cause of a script, and a copy of that which may be run."""

    script: Script
    finding: Mapping[str, Any]
    root: Path
    lane: Lane
    check_s: float  # of a recording
    remedies: Path | None  # by hand


def make_changes(subject: Subject) -> Iterator[Callable[[Subject], Iterator[Change]]]:
    """Yield what makes the changes that show the cost of a cause. They raise ``RunError``."""
    finding = subject.finding
    yield _apply_remedies
    if proof_edits(finding):
        yield _apply_fixes
    if finding["name"] in REMOVALS:
        yield _leave_out
    if finding["code"] in _CALLS_TOO_MUCH:
        yield _double_batches
    if is_of_line(finding) and finding["where"] is not None:
        yield _change_statement


def _apply_remedies(subject: Subject) -> Iterator[Change]:
    text = subject.remedies.read_text(encoding="utf-8") if subject.remedies else ""
    for remedy in tomllib.loads(text).get("remedy", ()):
        if (remedy["script"], remedy["code"]) == (subject.script.name, subject.finding["code"]):
            factor = _without_cause(remedy.get("samples", 1))
            edit = _remedy_edit(remedy["edits"])
            yield Change("a remedy", edit, without_cause=factor, is_last=True)


def _apply_fixes(subject: Subject) -> Iterator[Change]:
    run_facts = record_facts(subject.script, subject.root, subject.lane, subject.check_s)
    for fix, edits in propose_edits(proof_edits(subject.finding), run_facts):
        yield Change(fix, alteration=Alteration(edits))


def _leave_out(subject: Subject) -> Iterator[Change]:
    name = subject.finding["name"]
    yield Change(name, alteration=Alteration(removal=name), is_last=True)


def _double_batches(subject: Subject) -> Iterator[Change]:
    run_facts = record_facts(subject.script, subject.root, subject.lane, subject.check_s)
    edits = double_batches(run_facts)
    if edits:
        factor = _without_cause(BATCH_FACTOR)
        yield Change("batches twice as large", None, Alteration(edits), factor, tells="true")


def _change_statement(subject: Subject) -> Iterator[Change]:
    file, line = subject.finding["where"]["file"], subject.finding["where"]["line"]
    edit = _statement_edit(file, line, remove_statement)
    yield Change("without the statement", edit, is_last=True)
    yield Change(
        "the statement twice",
        _statement_edit(file, line, repeat_statement),
        without_cause=lambda twice, once: 2 * once - twice,
        tells="false" if subject.finding["code"] in _PYTHON_AT_LINES else "either",
        is_last=True,
    )


def _without_cause(samples: float) -> Callable[[float, float], float]:
    return lambda changed_s, _: changed_s / samples


def _remedy_edit(edits: Sequence[Mapping[str, str]]) -> Callable[[Path], bool]:
    def change(root: Path) -> bool:
        for edit in edits:
            path = next(iter(sorted(root.rglob(edit["file"]))), None)
            text = path.read_text(encoding="utf-8") if path else ""
            if path is None or edit["old"] not in text:
                raise RunError(f"the remedy does not fit {edit['file']}")
            path.write_text(text.replace(edit["old"], edit["new"]), encoding="utf-8")
        return True

    return change


def _statement_edit(
    file: str, line: int, edit: Callable[[str, int], str | None]
) -> Callable[[Path], bool]:
    def change(root: Path) -> bool:
        for path in sorted(root.rglob(file)):
            text = edit(path.read_text(encoding="utf-8"), line)
            if text is not None:
                path.write_text(text, encoding="utf-8")
                return True
        return False

    return change
