"""Show whether a cause that was named of a sound case costs something: by trials, or by hand.

Where ``gapless try`` has an edit for it, that is tried. What is done at a line is shown by the
statement there: the script without it; where it cannot go, with it done twice. What remains is
shown by a remedy that was written by hand for the cause, in a file of TOML::

    [[remedy]]
    script = "NAME"
    code = "G221"  # of the cause
    samples = 1.0  # in a step, times as many as without it (2.0: a batch of twice the size)
    edits = [{ file = "model.py", old = "validate()", new = "" }]
"""

import ast
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.planted import truth
from benchmarks.planted.asking import prove
from benchmarks.planted.cases import Case
from benchmarks.planted.judging import is_of_line, proof_edits, training_causes
from benchmarks.planted.running import Lane, RunError, prepare
from benchmarks.planted.scripts import FetchError, scripts
from benchmarks.planted.working import (
    PlantOptions,
    measure_side_by_side,
    plant_case,
    write_record,
)

# A statement that calls one of these trains: without it, a script does something else.
_TRAINING_CALLS: Final = frozenset({"backward", "step", "zero_grad", "main", "train", "fit"})
# Two starts differ by 6 %: by two of them nothing is proved that gains less than 8 %, or anything
# more than none disproved.
_PROOF_STARTS: Final = 8
# What Python takes at a line that also calls operators: done twice, both are.
_PARTLY_LINES: Final = frozenset({"G202"})
_MIN_REST: Final = 0.02  # of a step, that stays without a cause


def prove_named(case: Case, lane: Lane, options: PlantOptions) -> str:
    """Try what was named first of a sound case: is it an alarm? Keep what was measured."""
    path = options.out / case.half / f"{case.name}.json"
    answer_path = options.out / case.half / "answers" / path.name
    if case.kind not in ("control", "decoy") or not path.exists() or not answer_path.exists():
        return ""
    case_record: dict[str, Any] = json.loads(path.read_text())
    causes = training_causes(json.loads(answer_path.read_text()).get("findings"))[:1]
    if not causes or "failed" in case_record:
        return ""
    proofs = case_record.get("proofs", {})
    untried_edits = [edit for edit in proof_edits(causes[0]) if edit not in proofs]
    changes = () if case_record.get("removal") else _changes(causes[0], case, options)
    if not (untried_edits or changes):
        return ""
    root = lane.folder / "proved" / case.name
    script = scripts()[case.script]
    try:
        prepare(script, root, options.sources)
        plant_case(case, root, case_record["step_s"])
        if changes:
            case_record |= _measure_change(case, lane, options, (root, changes))
        is_proved = case_record.get("removal", {}).get("verdict") == "faulty"
        if untried_edits and not is_proved:
            new_proofs = prove(script, root, lane, untried_edits, options.trial_s)
            case_record["proofs"] = proofs | new_proofs
    except (RunError, FetchError, OSError) as error:
        return f"not proved: {str(error)[-300:]}"
    finally:
        shutil.rmtree(root, ignore_errors=True)
        write_record(path, case_record)
    return "proved"


# Changes a copy of a script. Tells whether it could, and gives what a step took without the cause,
# by what it took in the changed script and in the one as it is.
_Change: TypeAlias = tuple[Callable[[Path], bool], Callable[[float, float], float]]


def _changes(finding: Mapping[str, Any], case: Case, options: PlantOptions) -> Sequence[_Change]:
    """Return what shows the cost of a cause, the surest first."""
    text = options.remedies.read_text(encoding="utf-8") if options.remedies else ""
    changes: list[_Change] = [
        (_remedy_edit(remedy["edits"]), _without_cause(remedy.get("samples", 1)))
        for remedy in tomllib.loads(text).get("remedy", ())
        if (remedy["script"], remedy["code"]) == (case.script, finding["code"])
    ]
    location = finding["where"]
    if is_of_line(finding) and location is not None:
        file, line = location["file"], location["line"]
        changes.append((_statement_edit(file, line, remove_statement), _without_cause(1)))
        if finding["code"] not in _PARTLY_LINES:
            repeat = _statement_edit(file, line, repeat_statement)
            changes.append((repeat, lambda twice, once: 2 * once - twice))
    return changes


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


def _measure_change(
    case: Case, lane: Lane, options: PlantOptions, place: tuple[Path, Sequence[_Change]]
) -> dict[str, Any]:
    """Return ``removal``, what a script gains without a cause, or why no change of it ran."""
    root, changes = place
    reason = "its statement cannot be changed"
    changed = lane.folder / "changed" / case.name
    for change, without_cause in changes:
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(root, changed, symlinks=True)
        try:
            if change(changed):
                roots, limits = (changed, root), _lengthen(options.limits(lane.device))
                measured = measure_side_by_side(scripts()[case.script], roots, lane, limits)
                return {"removal": _gain(measured, without_cause).plain()}
        except RunError as error:
            reason = str(error)[-600:]
        finally:
            shutil.rmtree(changed, ignore_errors=True)
    return {"not_removed": reason}


def _gain(measured: truth.Truth, without_cause: Callable[[float, float], float]) -> truth.Truth:
    """Return a measured speed-up of the changed script as what removing the cause gains."""
    pairs = tuple(zip(measured.healthy_s, measured.planted_s, strict=True))
    low, mid, high = sorted(
        1 / max(without_cause(1 / ratio, 1.0), _MIN_REST)
        for ratio in (measured.low, measured.mid, measured.high)
    )
    return replace(
        measured,
        low=low,
        mid=mid,
        high=high,
        healthy_s=tuple(max(without_cause(*pair), _MIN_REST * pair[1]) for pair in pairs),
        verdict=truth.verdict(low, mid, high),
    )


def _lengthen(limits: truth.Limits) -> truth.Limits:
    """Return limits by which a small effect can be proved, or that there is none."""
    factor = _PROOF_STARTS / limits.starts
    return replace(
        limits,
        seconds=factor * limits.seconds,
        at_most=factor * limits.at_most,
        starts=_PROOF_STARTS,
    )


def remove_statement(text: str, line: int) -> str | None:
    """Return a source without the statement at a line; ``None`` where none can go."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    at_line = sorted(_statements_at(tree, line), key=lambda node: -node.lineno)
    statement = next(filter(_is_removable, at_line), None)
    if statement is None:
        return None
    lines = text.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
    padding = " " * statement.col_offset
    return "".join(
        [*lines[:first], f"{padding}pass\n", *["\n"] * (last - first - 1), *lines[last:]]
    )


def repeat_statement(text: str, line: int) -> str | None:
    """Return a source that does twice what a statement at a line does; ``None`` if none can be.

    Of an assignment what is assigned is computed once more; a loop is gone through once more.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    lines = text.splitlines(keepends=True)
    for statement in sorted(_statements_at(tree, line), key=lambda node: -node.lineno):
        is_alone = not lines[statement.lineno - 1][: statement.col_offset].strip()
        repeated = _repeated_source(statement, text)
        if is_alone and repeated is not None and not _trains(statement):
            padding = " " * statement.col_offset
            first = statement.lineno - 1
            return "".join([*lines[:first], f"{padding}{repeated}\n", *lines[first:]])
    return None


def _repeated_source(statement: ast.stmt, text: str) -> str | None:
    if isinstance(statement, ast.For):
        return ast.get_source_segment(text, statement)
    has_value = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr)
    value = getattr(statement, "value", None) if has_value else None
    return f"({ast.get_source_segment(text, value)})" if value is not None else None


def _statements_at(tree: ast.AST, line: int) -> Iterator[ast.stmt]:
    """Return the statements that hold a line; of those with a block, only if it is their head."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        last_line = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        if node.lineno <= line <= last_line:
            yield node


def _is_removable(statement: ast.stmt) -> bool:
    kinds = ast.Expr | ast.If | ast.For | ast.With | ast.AugAssign
    return isinstance(statement, kinds) and not _trains(statement)


def _trains(statement: ast.stmt) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
    return bool(names & _TRAINING_CALLS)
