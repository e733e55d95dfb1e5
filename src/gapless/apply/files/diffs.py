"""Unified diffs of patches, as ``git apply`` and ``patch -p1`` read them."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gapless.apply.patch import PatchedFile

_CONTEXT = 3
Lines = list[str]
Opcode = tuple[str, int, int, int, int]


def diff_lines(
    file: PatchedFile, root: Path, name_hunk: Callable[[int, int], str] = lambda _low, _high: ""
) -> Iterator[str]:
    """Yield the lines of a file's diff, with their ends; names are relative to ``root``.

    A link is named by what it leads to, which is what tools change.

    ``name_hunk`` gives the words behind the head of a hunk, from the changed lines before the patch
    (from 0, the last excluded). Bytes that are no UTF-8 are kept as surrogates.
    """
    before, after = _split_lines(file.before or b""), _split_lines(file.after)
    name = file.path.resolve().relative_to(root.resolve()).as_posix()
    tab = "\t" if " " in name else ""
    yield "--- /dev/null\n" if file.before is None else f"--- a/{name}{tab}\n"
    yield f"+++ b/{name}{tab}\n"
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(
        _CONTEXT
    ):
        changes = [code for code in group if code[0] != "equal"]
        words = name_hunk(changes[0][1], changes[-1][2])
        spans = _span(group[0][1], group[-1][2]), _span(group[0][3], group[-1][4])
        yield f"@@ -{spans[0]} +{spans[1]} @@{' ' * bool(words)}{words}\n"
        for code in group:
            yield from _opcode_lines(code, before, after)


def changed_lines(file: PatchedFile) -> tuple[tuple[int, int], ...]:
    """Return the stretches of lines before the patch that it replaces (from 0, end excluded)."""
    before, after = _split_lines(file.before or b""), _split_lines(file.after)
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return tuple((low, high) for tag, low, high, _, _ in opcodes if tag != "equal")


def diff_bytes(lines: Sequence[str]) -> bytes:
    """Return the bytes of a diff."""
    return "".join(lines).encode("utf-8", "surrogateescape")


def _split_lines(content: bytes) -> Lines:
    text = content.decode("utf-8", "surrogateescape")
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _span(low: int, high: int) -> str:
    count = high - low
    first = low + 1 if count else low
    return f"{first}" if count == 1 else f"{first},{count}"


def _opcode_lines(code: Opcode, before: Lines, after: Lines) -> Iterator[str]:
    tag, low, high, new_low, new_high = code
    if tag == "equal":
        yield from _mark_lines(" ", before[low:high])
    else:
        yield from _mark_lines("-", before[low:high])
        yield from _mark_lines("+", after[new_low:new_high])


def _mark_lines(sign: str, lines: Lines) -> Iterator[str]:
    for line in lines:
        yield f"{sign}{line}"
        if not line.endswith("\n"):
            yield "\n\\ No newline at end of file\n"
