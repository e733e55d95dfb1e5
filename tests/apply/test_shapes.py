"""Every shape of the benchmark: written and compiled, or refused for the expected reason."""

from pathlib import Path

import pytest

from benchmarks.patching.shape import SCRIPT, Shape
from benchmarks.patching.shapes import SHAPES
from gapless.apply.patching import make_patch

FOLDER = Path("/srv/training")


def test_there_are_sixty_and_no_name_twice() -> None:
    names = [shape.name for shape in SHAPES]
    assert len(names) == len({*names})
    assert len(names) >= 60


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name.replace(" ", "-"))
def test_it_is_written_or_refused(shape: Shape) -> None:
    sources, fix = shape.sources(FOLDER), shape.fix(FOLDER)
    patch = make_patch([fix], sources, FOLDER / SCRIPT)
    if shape.refused is not None:
        assert patch.files == ()
        assert shape.refused in patch.manual[0].reason
        assert patch.manual[0].text
        return
    assert [change.reason for change in patch.manual] == []
    assert patch.written == ("fix",)
    assert bool(patch.files) is not shape.same
    for file in patch.files:
        compile(file.after, file.path.name, "exec", dont_inherit=True)
    after = {**sources, **{file.path: file.after for file in patch.files}}
    if not any(getattr(edit, "where", None) for edit in fix.edits):  # lines have moved otherwise
        assert make_patch([fix], after, FOLDER / SCRIPT).files == () or "taken out" in shape.name
