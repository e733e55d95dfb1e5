"""docs/run-folder.md tells of every frame, every mark, every key of run.json."""

import re
from pathlib import Path

from msgspec.structs import fields

from gapless import wire
from gapless.model.recording import Manifest

PAGE = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text(encoding="utf-8")


def first_cells(head: str) -> list[str]:
    """Return the first column of the table with this head."""
    _, _, below = PAGE.partition(f"| {head} |")
    rows = below.partition("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip() for row in rows]


def test_every_kind_of_frame_is_explained_in_order() -> None:
    assert first_cells("kind") == list(wire.FRAMES.values())


def test_every_kind_of_mark_is_explained_in_order() -> None:
    assert first_cells("mark") == list(wire.MARKS_NAMES)


def test_every_key_of_the_manifest_is_explained() -> None:
    keys = set(re.findall(r"`(\w+)`", " ".join(first_cells("key"))))
    assert keys == {"version", "spool", "launcher", *(field.name for field in fields(Manifest))}
