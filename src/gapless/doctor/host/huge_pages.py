"""Pages of 2 MiB."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject

_FOLDER: Final = "sys/kernel/mm/transparent_hugepage"
_CHOICE: Final = re.compile(r"\[(\w[\w+]*)\]")


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at transparent huge pages, and whether the kernel stops programs to make them.

    Large tensors in pages of 4 KiB take a fault for each, which is most of what a fresh batch
    costs. With defrag "always" each such fault may wait until memory was moved together.
    """
    pages, defrag = _choice(subject, "enabled"), _choice(subject, "defrag")
    if pages is None:
        return unknown("the kernel does not show how it uses huge pages")
    evidence = f"{pages}, defrag {defrag}"
    if pages == "never":
        return warn(
            f"{evidence}: large tensors are made of pages of 4 KiB",
            f"echo madvise | sudo tee /{_FOLDER}/enabled; export THP_MEM_ALLOC_ENABLE=1",
        )
    if defrag == "always" and pages == "always":
        return warn(
            f"{evidence}: a page fault may wait for memory to be moved",
            f"echo madvise | sudo tee /{_FOLDER}/defrag",
        )
    return ok(evidence)


def _choice(subject: CheckSubject, name: str) -> str | None:
    """Return the word in brackets: "always [madvise] never"."""
    match = _CHOICE.search(subject.files.text(f"{_FOLDER}/{name}") or "")
    return match.group(1) if match else None
