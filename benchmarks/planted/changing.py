"""What shows the cost of a cause: changes by which a script gets rid of it, the surest first.

Each tells what it can: what leaves out, or makes for nothing, just what a cause is about tells
either; what holds more than that (a function done twice, with all it computes) that a cause costs
little; batches of twice the size, and what is compiled, that it costs much.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.planted.altering import propose_edits, record_facts, settings_of
from benchmarks.planted.growing import (
    BATCH_FACTOR,
    double_arguments,
    double_batches,
    double_files,
)
from benchmarks.planted.outcomes import ceilings_of, proof_edits
from benchmarks.planted.running import Alteration, Lane, RunError
from benchmarks.planted.scripts import Script
from benchmarks.planted.statements import (
    decorate_function,
    find_loop,
    is_at_function,
    remove_statement,
    repeat_statement,
)
from gapless.model.facts import Facts

# Causes by what their line is. All that is done at these goes with the cause …
_WHOLE_LINES: Final = frozenset({"G203", "G214", "G215", "G219", "G517", "G705"})
_WHOLE_FUNCTIONS: Final = frozenset({"G203"})  # of these, all that a named function does
# … at these a part of it, the larger one or not: a loop that is called once, say. The line of all
# others is where a loader is made, or a model is set to evaluate: without it, the cost stays.
_PARTS_OF_LINES: Final = frozenset(
    {
        *("G107", "G108", "G109", "G110", "G112", "G117", "G202", "G206", "G207", "G216", "G218"),
        *("G505", "G506", "G508", "G515", "G516", "G519", "G701", "G702"),
    }
)
_STATEMENTS: Final = frozenset({"G206", "G207", "G216", "G516"})  # of these, one may be all
_CALLS_TOO_MUCH: Final = frozenset({"G201", "G202"})  # shown by larger batches
_COMPILED: Final = frozenset({"G202", "G506"})  # a compiler can take them away
_PASSES_TOO_OFTEN: Final = frozenset({"G506"})  # over memory
REMOVALS: Final = frozenset(  # in ``counting/removing``
    {
        *("distribution-checks", "double-precision", "emulated-half", "evaluation-with-autograd"),
        *("needless-gradients", "padded-batches", "profiler-left-on", "read-back", "scalar-read"),
    }
)
_PADDED: Final = "padded-batches"
_WRAPPER: Final = '__import__("removing.functions").functions.'

Tells = Literal["either", "true", "false"]


@dataclass(frozen=True)
class Change:
    """How a script gets rid of a cause, and what that shows."""

    name: str
    edit: Callable[[Path], bool] | None = None  # of its copy; tells whether it could
    alteration: Alteration | None = None
    # Gives what a step took without the cause, by what it took changed, and as it is.
    without_cause: Callable[[float, float], float] = lambda changed_s, _: changed_s
    tells: Tells = "either"
    tells_of_operators: Tells | None = None  # if operators are called in what is done twice
    is_last: bool = False  # where it runs, nothing that is made behind it tells more


@dataclass(frozen=True)
class Subject:
    """A cause of a script, and a copy of that which may be run."""

    script: Script
    finding: Mapping[str, Any]
    root: Path
    lane: Lane
    check_s: float  # of a recording
    remedies: Path | None  # by hand
    _facts: list[Facts] = field(default_factory=list[Facts])

    def facts(self) -> Facts:
        """Return what is true of the script, recorded once. Raises ``RunError``."""
        if not self._facts:
            self._facts.append(record_facts(self.script, self.root, self.lane, self.check_s))
        return self._facts[0]

    @property
    def lines(self) -> tuple[str, int, int]:
        """Return the file and the lines of the cause: a sentence may name several."""
        file, line = self.finding["where"]["file"], self.finding["where"]["line"]
        pattern = rf"{re.escape(file)}:(\d+)-(\d+) "
        match = re.match(pattern, self.finding.get("summary") or "")
        first, last = (int(match[1]), int(match[2])) if match else (line, line)
        return (file, first, last) if first <= line <= last else (file, line, line)


Maker = Callable[[Subject], Iterator[Change]]


def make_changes(subject: Subject) -> Iterator[Maker]:
    """Yield what makes the changes that show the cost of a cause. They raise ``RunError``."""
    finding, code = subject.finding, subject.finding["code"]
    # Where the model can be compiled, the line is that where it is made.
    has_line = finding["where"] is not None and not (code in _COMPILED and finding["helps"])
    is_of_lines = code in _WHOLE_LINES | _PARTS_OF_LINES
    choices: tuple[tuple[bool, Maker], ...] = (
        (True, _apply_remedies),
        (finding["name"] == _PADDED, _cut_padding),
        (finding["name"] in REMOVALS - {_PADDED}, _leave_out),
        (bool(proof_edits(finding)), _apply_fixes),
        (bool(settings_of(code)), _change_settings),
        (code in _CALLS_TOO_MUCH, _double_batches),
        (has_line and code in _PASSES_TOO_OFTEN, _pass_over_memory),
        (has_line and is_of_lines, change_lines),
        (has_line and code in _COMPILED, _compile_function),
        (bool(finding["helps"] and ceilings_of(code)), _apply_ceilings),
    )
    yield from (make for is_due, make in choices if is_due)


def _apply_remedies(subject: Subject) -> Iterator[Change]:
    text = subject.remedies.read_text(encoding="utf-8") if subject.remedies else ""
    for remedy in tomllib.loads(text).get("remedy", ()):
        if (remedy["script"], remedy["code"]) == (subject.script.name, subject.finding["code"]):
            factor = _without_cause(remedy.get("samples", 1))
            edit = _remedy_edit(remedy["edits"])
            yield Change("a remedy", edit, without_cause=factor, is_last=True)


def _apply_fixes(subject: Subject) -> Iterator[Change]:
    for fix, edits in propose_edits(proof_edits(subject.finding), subject.facts()):
        yield Change(fix, alteration=Alteration(edits))


def _apply_ceilings(subject: Subject) -> Iterator[Change]:
    for fix, edits in propose_edits(ceilings_of(subject.finding["code"]), subject.facts()):
        yield Change(fix, alteration=Alteration(edits))


def _leave_out(subject: Subject) -> Iterator[Change]:
    name = subject.finding["name"]
    yield Change(name, alteration=Alteration(removal=name), is_last=True)


def _cut_padding(subject: Subject) -> Iterator[Change]:
    fillings = [loader.padding for loader in subject.facts().loaders if loader.padding is not None]
    for filling in sorted(fillings, key=lambda filling: filling.filled)[:1]:
        option = f"{filling.rows} {filling.filled} {filling.dimensions}"
        yield Change(_PADDED, alteration=Alteration(removal=_PADDED, option=option), is_last=True)


def _change_settings(subject: Subject) -> Iterator[Change]:
    yield Change("settings", alteration=Alteration(settings_of(subject.finding["code"])))


def _double_batches(subject: Subject) -> Iterator[Change]:
    """Double what the command says, or else what the source does, or else what loaders make."""
    arguments = double_arguments(subject.script.command(subject.lane.device)[1:])
    edit: Callable[[Path], bool] | None = None
    alteration = Alteration(arguments=arguments, watch="elements")
    if arguments is None and double_files(subject.root):
        edit = double_files
    elif arguments is None:
        edits = double_batches(subject.facts())
        if not edits:
            return
        alteration = Alteration(edits, watch="elements")
    factor = _without_cause(BATCH_FACTOR)
    yield Change("batches twice as large", edit, alteration, factor, tells="true")


def _pass_over_memory(subject: Subject) -> Iterator[Change]:
    edit = _source_edit(subject, lambda text, line, _: _decorate(text, line, "passes"))
    alteration = Alteration(removal="passes")
    yield Change("as few passes over memory as needed", edit, alteration, is_last=True)


def _compile_function(subject: Subject) -> Iterator[Change]:
    edit = _source_edit(subject, lambda text, line, _: _decorate(text, line, "compiled"))
    yield Change("the function compiled", edit, tells="true")


def change_lines(subject: Subject) -> Iterator[Change]:
    """Leave out what is done at the lines of a cause, or do it twice.

    Of a cause that is a part of them the function is done twice; where it trains, the loop in it.
    """
    code = subject.finding["code"]
    is_part = code in _PARTS_OF_LINES
    function_edit = _source_edit(subject, _decorate_holder if is_part else _decorate_named)
    yield Change(
        "the function twice",
        function_edit,
        Alteration(),
        _twice_without,
        tells_of_operators=None if code in _WHOLE_FUNCTIONS else "false",
        is_last=True,
    )
    if is_part:
        edit = _source_edit(subject, _repeat_loop)
        yield Change("the loop twice", edit, None, _twice_without, "false", is_last=True)
        if code not in _STATEMENTS:
            return
    else:
        yield Change("without the statement", _source_edit(subject, remove_statement), is_last=True)
    edit = _source_edit(subject, repeat_statement)
    tells: Tells = "false" if is_part else "either"
    yield Change("the statement twice", edit, None, _twice_without, tells, is_last=True)


def _decorate_holder(text: str, line: int, _last_line: int) -> str | None:
    return _decorate(text, line, "twice")


def _decorate_named(text: str, line: int, _last_line: int) -> str | None:
    """Do a function twice where its beginning is named."""
    return _decorate(text, line, "twice") if is_at_function(text, line) else None


def _repeat_loop(text: str, line: int, _last_line: int) -> str | None:
    loop_line = find_loop(text, line)
    return None if loop_line is None else repeat_statement(text, loop_line)


def _decorate(text: str, line: int, wrapper: str) -> str | None:
    return decorate_function(text, line, f"{_WRAPPER}{wrapper}")


def _twice_without(twice_s: float, once_s: float) -> float:
    return 2 * once_s - twice_s


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


def _source_edit(
    subject: Subject, edit: Callable[[str, int, int], str | None]
) -> Callable[[Path], bool]:
    file, first, last = subject.lines

    def change(root: Path) -> bool:
        for path in sorted(root.rglob(file)):
            text = edit(path.read_text(encoding="utf-8"), first, last)
            if text is not None:
                path.write_text(text, encoding="utf-8")
                return True
        return False

    return change
