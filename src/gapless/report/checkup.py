"""A checkup on a terminal: the worst first, what is well in one line."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from gapless.model.checkup import CheckResult, Checkup, CheckVerdict
from gapless.report.text.console import UNICODE, Pen
from gapless.report.text.text import clean, pad
from gapless.report.text.wrap import fold

_STYLES: Final = {
    CheckVerdict.BAD: "bold red",
    CheckVerdict.WARN: "yellow",
    CheckVerdict.UNKNOWN: "bright_black",
    CheckVerdict.OK: "green",
}
_VERDICT_CELLS: Final = 9


def checkup_lines(checkup: Checkup, pen: Pen, *, is_full: bool) -> Iterator[Text]:
    """Return the screen: a sum, then each check that is not well, with what to type."""
    yield from fold(_headline(checkup), pen.width, style="bold")
    yield from fold(clean(checkup.subject), pen.width, style="bright_black")
    for verdict in CheckVerdict:
        results = [result for result in checkup.results if result.verdict is verdict]
        if not results:
            continue
        if verdict is CheckVerdict.OK and not is_full:
            yield from _folded_names(results, pen)
        elif verdict is CheckVerdict.UNKNOWN:
            yield from _unknown_lines(results, pen)
        else:
            for result in results:
                yield from _result_lines(result, pen)
    for note in checkup.notes:
        yield from fold(clean(note), pen.width, style="bright_black")


def _headline(checkup: Checkup) -> str:
    counts = {
        verdict: sum(result.verdict is verdict for result in checkup.results)
        for verdict in CheckVerdict
    }
    words = [f"{count} {verdict.value}" for verdict, count in counts.items() if count]
    return f"gapless doctor · {' · '.join(words)} · {checkup.took_s:.1f} s"


def _result_lines(result: CheckResult, pen: Pen) -> Iterator[Text]:
    """Return a check: verdict, name and evidence, then what to type."""
    yield from _label_lines(result.verdict, result.name, result.evidence, pen)
    if result.remedy is not None:
        yield from _remedy_lines(result.remedy, pen)


def _remedy_lines(remedy: str, pen: Pen) -> Iterator[Text]:
    arrow = "→ " if pen.signs is UNICODE else "> "
    for number, line in enumerate(fold(clean(remedy), pen.width - _VERDICT_CELLS - 2, "cyan")):
        yield Text.assemble(" " * _VERDICT_CELLS, ("  " if number else arrow, "cyan"), line)


def _unknown_lines(results: Sequence[CheckResult], pen: Pen) -> Iterator[Text]:
    """Return what could not be seen: a line for each reason."""
    names_by_reason: dict[tuple[str, str | None], list[str]] = {}
    for result in results:
        names_by_reason.setdefault((result.evidence, result.remedy), []).append(result.name)
    for (reason, remedy), names in names_by_reason.items():
        yield from _label_lines(CheckVerdict.UNKNOWN, ", ".join(names), reason, pen)
        if remedy is not None:
            yield from _remedy_lines(remedy, pen)


def _folded_names(results: Sequence[CheckResult], pen: Pen) -> Iterator[Text]:
    names = ", ".join(result.name for result in results)
    for number, line in enumerate(fold(f"{names} (--full: why)", pen.width - _VERDICT_CELLS)):
        label = "" if number else CheckVerdict.OK.value
        yield Text.assemble((pad(label, _VERDICT_CELLS), _STYLES[CheckVerdict.OK]), line)


def _label_lines(verdict: CheckVerdict, names: str, words: str, pen: Pen) -> Iterator[Text]:
    """Return a verdict, then names (bold) and what is said of them, folded beside it."""
    n_bold = len(names)
    for number, line in enumerate(fold(f"{names}: {clean(words)}", pen.width - _VERDICT_CELLS)):
        line.stylize("bold", 0, max(0, n_bold))
        n_bold -= len(line.plain) + 1
        label = "" if number else verdict.value
        yield Text.assemble((pad(label, _VERDICT_CELLS), _STYLES[verdict]), line)
