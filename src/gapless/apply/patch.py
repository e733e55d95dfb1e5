"""What a patch is: files as they were and as they become, and what a person must write by hand."""

from pathlib import Path

from msgspec import Struct

from gapless.model.edit import Location


class PatchedFile(Struct, frozen=True):
    """A file of the user's, to the byte: as it was, and as it becomes."""

    path: Path
    before: bytes | None  # None: it is created (a part that is vendored)
    after: bytes


class ManualChange(Struct, frozen=True):
    """A change that is not written: where it belongs, why it is left, and its exact text."""

    fix: str
    summary: str
    location: Location | None
    reason: str
    text: str


class Patch(Struct, frozen=True):
    """Proven fixes as source."""

    files: tuple[PatchedFile, ...]  # those that change
    manual: tuple[ManualChange, ...]
    written: tuple[str, ...]  # names of the fixes of which nothing is left to do by hand
